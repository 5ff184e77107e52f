// In-place writes through views of tensors in every layout: what one device gives, or refused, never lost.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <c10/core/AutogradState.h>

#include <cstdio>

#include "tests/support/test_devices.h"
#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/device/logical_devices.h"
#include "tutti/tensor/mesh_tensor.h"

namespace tutti {
namespace {

struct View {
  std::string name;
  std::function<Tensor(const Tensor&)> of;  // a tensor of sizes {6, 4}
};

struct Write {
  std::string name;
  std::function<void(Tensor&)> to;
  bool changes_geometry = false;  // LibTorch refuses most gradients of that itself
};

std::vector<View> views() {
  using torch::indexing::Slice;
  return {
      {"alias", [](const Tensor& x) { return x.alias(); }},
      {"detach", [](const Tensor& x) { return x.detach(); }},
      {"select_row", [](const Tensor& x) { return x.select(0, 4); }},
      {"select_column", [](const Tensor& x) { return x.select(1, -1); }},
      {"select_element", [](const Tensor& x) { return x[1][2]; }},
      {"slice_rows", [](const Tensor& x) { return x.slice(0, 1, 5); }},
      {"slice_columns", [](const Tensor& x) { return x.narrow(1, 1, 2); }},
      {"slice_with_a_step", [](const Tensor& x) { return x.slice(0, 1, 6, 2); }},
      {"slice_of_the_whole", [](const Tensor& x) { return x.slice(0); }},
      {"slice_both",
       [](const Tensor& x) {
         return x.index({Slice(1, 4), Slice(2)});
       }},
      {"slice_of_a_slice", [](const Tensor& x) { return x.slice(0, 1, 5).slice(0, 1, 3).slice(1, 1, 4); }},
      {"t", [](const Tensor& x) { return x.t(); }},
      {"row_of_t", [](const Tensor& x) { return x.t().select(0, 2); }},
      {"view_as_one_axis", [](const Tensor& x) { return x.view(24); }},
      {"view_that_splits",
       [](const Tensor& x) {
         return x.view({2, 3, 2, 2});
       }},
      {"view_that_merges_others",
       [](const Tensor& x) {
         return x.view({3, 8});
       }},
      {"view_of_a_row",
       [](const Tensor& x) {
         return x.select(0, 1).view({2, 2});
       }},
      {"row_of_a_view",
       [](const Tensor& x) {
         return x.view({2, 3, 4}).select(0, 1);
       }},
      {"unsqueeze_of_a_row", [](const Tensor& x) { return x.select(0, 1).unsqueeze(0); }},
      {"squeeze", [](const Tensor& x) { return x.slice(0, 2, 3).squeeze(0); }},
      {"diagonal", [](const Tensor& x) { return x.diagonal(); }},
      {"unfold", [](const Tensor& x) { return x.unfold(0, 2, 2); }},
      {"part_of_split", [](const Tensor& x) { return x.split(4)[1]; }},
      {"part_of_chunk", [](const Tensor& x) { return x.chunk(2, 1)[1]; }},
      {"part_of_unbind", [](const Tensor& x) { return x.unbind(1)[2]; }},
      {"as_strided",
       [](const Tensor& x) {
         return x.as_strided({2, 3}, {4, 1}, 5);
       }},
  };
}

std::vector<Write> writes() {
  return {
      {"fill", [](Tensor& v) { v.fill_(2.5); }},
      {"zero", [](Tensor& v) { v.zero_(); }},
      {"add", [](Tensor& v) { v.add_(1.5); }},
      {"mul_by_itself", [](Tensor& v) { v.mul_(v); }},
      {"copy", [](Tensor& v) { v.copy_(v.neg()); }},
      {"add_a_result", [](Tensor& v) { v.add_(v.exp(), 0.5); }},
      {"masked_fill", [](Tensor& v) { v.masked_fill_(v.gt(0), -1); }},
      {"clamp", [](Tensor& v) { v.clamp_(-0.5, 0.5); }},
      {"cumsum", [](Tensor& v) { v.unsqueeze(0).cumsum_(-1); }},
      {"draw", [](Tensor& v) { v.uniform_(); }},
      {"twice", [](Tensor& v) { v.add_(1).mul_(2); }},
      {"squeeze_in_place", [](Tensor& v) { v.unsqueeze(0).squeeze_(0).mul_(2); }},
      {"unsqueeze_in_place", [](Tensor& v) { v.unsqueeze_(-1).mul_(2); }, true},
      {"transpose_in_place", [](Tensor& v) { v.transpose_(0, -1).mul_(2); }, true},
      {"as_strided_in_place", [](Tensor& v) { v.as_strided_({v.size(0)}, {v.stride(0)}).mul_(2); }, true},
  };
}

// What a program sees around a write through a view.
struct Seen {
  std::vector<Tensor> values;
  bool refused = false;
};

template <class Program>
Seen see(Program program) {
  torch::manual_seed(3);
  Seen seen;
  try {
    seen.values = program();
  } catch (const std::exception&) {
    seen.refused = true;
  }
  return seen;
}

Seen without_gradient(const View& view, const Write& write, const Tensor& x) {
  return see([&]() -> std::vector<Tensor> {
    const torch::NoGradGuard no_grad;
    Tensor v = view.of(x);
    const Tensor before = x.clone();
    write.to(v);
    const Tensor after = x.clone(), shown = v.clone();
    x.mul_(2);  // the view shows what is written to the tensor
    return {before, after, shown, v.clone(), x};
  });
}

// In LibTorch a view that was multiplied by itself in place, the tensor under it, and the graph of both keep each other
// alive until a backward pass releases the graph; none does where the write is refused.
class GraphRelease {
 public:
  explicit GraphRelease(std::vector<Tensor> tensors) : tensors_(std::move(tensors)) {}
  ~GraphRelease() {
    for (const Tensor& tensor : tensors_)
      if (auto* meta = torch::autograd::impl::get_autograd_meta(tensor)) meta->grad_fn_ = nullptr;
  }
  GraphRelease(const GraphRelease&) = delete;
  GraphRelease& operator=(const GraphRelease&) = delete;

 private:
  std::vector<Tensor> tensors_;
};

Seen with_gradient(const View& view, const Write& write, const Tensor& leaf) {
  return see([&]() -> std::vector<Tensor> {
    const Tensor x = leaf * 1.5;
    Tensor v = view.of(x);
    const GraphRelease release({x, v});
    write.to(v);
    const auto gradients = torch::autograd::grad({x.sin().sum() + v.cos().sum()}, {leaf});
    return {x.detach(), v.detach(), gradients[0]};
  });
}

struct WriteCounts {
  int equal = 0, refused = 0, refused_by_both = 0;
};

void compare(const Seen& mesh, const Seen& plain, WriteCounts& counts) {
  if (plain.refused) {
    EXPECT_TRUE(mesh.refused);
    ++counts.refused_by_both;
    return;
  }
  if (mesh.refused) {
    ++counts.refused;
    return;
  }
  for (size_t i = 0; i < plain.values.size(); ++i) {
    const Tensor value = gather(mesh.values[i]);
    EXPECT_TRUE(value.sizes() == plain.values[i].sizes() && torch::allclose(value, plain.values[i], 1e-11, 1e-11))
        << "value " << i << ":\n"
        << value << "\ninstead of\n"
        << plain.values[i];
  }
  ++counts.equal;
}

std::vector<Layout> layouts_of_matrix(const Mesh& mesh) {
  std::vector<std::string> names{kUnsharded};
  for (const auto& dimension : mesh.dimensions()) names.push_back(dimension.name);
  std::vector<Layout> layouts;
  for (const std::string& rows : names)
    for (const std::string& columns : names)
      if (rows == kUnsharded || rows != columns) layouts.push_back(Layout({rows, columns}, mesh));
  return layouts;
}

class InPlaceViews : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override { torch::set_default_dtype(caffe2::TypeMeta::Make<double>()); }
  void TearDown() override { torch::set_default_dtype(caffe2::TypeMeta::Make<float>()); }
};

TEST_P(InPlaceViews, WriteWhatOneDeviceWrites) {
  torch::manual_seed(1);
  const Tensor value = torch::randn({6, 4});
  WriteCounts counts;
  for (const auto& dimensions :
       std::vector<std::vector<MeshDimension>>{{{"x", 2}}, {{"x", 3}}, {{"x", 2}, {"y", 3}}, {{"x", 1}, {"y", 2}}}) {
    const int devices = static_cast<int>(dimensions[0].size * (dimensions.size() == 1 ? 1 : dimensions[1].size));
    const Mesh mesh(dimensions, test_devices(devices), {.merge = GetParam()});
    for (const Layout& layout : layouts_of_matrix(mesh))
      for (const View& view : views())
        for (const Write& write : writes()) {
          SCOPED_TRACE(str(write.name, " through ", view.name, " of ", layout.to_string(), " on ", mesh.to_string()));
          const Tensor x = value.clone();
          compare(without_gradient(view, write, distribute_tensor(value, layout)), without_gradient(view, write, x),
                  counts);
          const Tensor leaf = value.clone().requires_grad_();
          const Seen of_leaf = with_gradient(view, write, leaf);
          if (!(of_leaf.refused && write.changes_geometry))
            compare(with_gradient(view, write, distribute_tensor(value, layout).requires_grad_()), of_leaf, counts);
          if (HasFailure()) return;
        }
  }
  std::printf("%d writes as on one device, %d refused, %d refused there too\n", counts.equal, counts.refused,
              counts.refused_by_both);
  EXPECT_EQ(counts.refused, 0);
}

TEST_P(InPlaceViews, ThatLibTorchDoesNotTrackWriteWhatTheyShow) {
  const torch::NoGradGuard no_grad;
  const Tensor value = torch::arange(24.0).view({6, 4});
  const Mesh mesh({{"x", 2}}, test_devices(2), {.merge = GetParam()});
  for (const Layout& layout : layouts_of_matrix(mesh)) {
    const Tensor plain = value.clone(), x = distribute_tensor(value, layout);
    for (const Tensor& whole : {plain, x}) {
      whole.unsafe_split(4)[1].zero_();
      whole.unsafe_split_with_sizes({1, 3}, 1)[1].add_(2);
    }
    EXPECT_TRUE(gather(x).equal(plain)) << layout.to_string();
  }
}

TEST_P(InPlaceViews, OfRepeatedElementsWriteThemWhereverTheyShow) {
  const torch::NoGradGuard no_grad;
  const Tensor value = torch::arange(1.0, 5.0);
  const Mesh mesh({{"x", 2}}, test_devices(2), {.merge = GetParam()});
  const Tensor plain = value.clone(), x = distribute_tensor(value, Layout({"x"}, mesh));
  for (const Tensor& whole : {plain, x}) {
    whole.expand({4, 4}).diagonal().mul_(10);
    whole.expand({4, 4}).select(0, 2).slice(0, 1, 4, 2).add_(1);
  }
  EXPECT_TRUE(gather(x).equal(plain)) << gather(x);
}

TEST_P(InPlaceViews, OfRepeatedElementsAreWrittenWholeWhereLibTorchWritesThem) {
  const torch::NoGradGuard no_grad;
  const Tensor value = torch::arange(1.0, 5.0);
  for (const int devices : {1, 2}) {
    const Mesh mesh({{"x", devices}}, test_devices(devices), {.merge = GetParam()});
    const Tensor plain = value.clone(), x = distribute_tensor(value, Layout({"x"}, mesh));
    for (const Tensor& whole : {plain, x}) {
      const Tensor repeated = whole.expand({2, 1, 4}).reshape({-1, 4});
      EXPECT_THROW(repeated.add_(1), std::exception);
      EXPECT_THROW(repeated.copy_(torch::ones({2, 4})), std::exception);
      EXPECT_THROW(repeated.relu_(), std::exception);
      repeated.fill_(3);  // which is the same in any order
    }
    EXPECT_TRUE(gather(x).equal(plain)) << gather(x);
  }
}

TEST_P(InPlaceViews, ReadElementsThatAreWrittenWhereTheseAreTheSameAlone) {
  const torch::NoGradGuard no_grad;
  const Mesh mesh({{"x", 2}}, test_devices(2), {.merge = GetParam()});
  for (const int64_t rows : {1, 2, 4}) {
    const Tensor value = torch::arange(1.0, 1 + 4.0 * rows).view({rows, 4});
    for (const Layout& layout : layouts_of_matrix(mesh)) {
      const Tensor plain = value.clone(), x = distribute_tensor(value, layout);
      for (const Tensor& whole : {plain, x}) {
        const Tensor last = whole[rows - 1];
        EXPECT_THROW(whole.sub_(last), std::exception) << layout.to_string();
        EXPECT_THROW(whole.copy_(last), std::exception) << layout.to_string();
        EXPECT_THROW(last.add_(whole.select(1, 0).sum() * whole[rows - 1][3]).mul_(last[0]), std::exception);
        Tensor into = last;
        EXPECT_THROW(torch::add_out(into, last[3], last), std::exception);
        whole.add_(whole.detach()).mul_(whole.view({rows, 4}));
        whole.view_as(plain).sub_(whole * 2).floor_divide_(whole);
        whole.view({4, rows}).view_as(plain).copy_(whole);
        whole.slice(1, 0, 2).mul_(whole.slice(1, 2, 4));
        if (rows > 1) last.add_(whole[0]);
      }
      EXPECT_TRUE(gather(x).equal(plain)) << layout.to_string();
    }
  }
}

// Which of them LibTorch refuses is LibTorch's affair. Where it lets a call read what the call has written, its numbers
// are those of an order that nobody promises.
TEST_P(InPlaceViews, ShareMemoryWithWhatOtherOpsReadWhereLibTorchLetsThem) {
  const torch::NoGradGuard no_grad;
  const Mesh mesh({{"x", 2}}, test_devices(2), {.merge = GetParam()});
  const Tensor whole = torch::arange(1.0, 33.0).view({4, 8}), ids = torch::tensor({{0, 1, 2, 3}, {3, 2, 1, 0}});
  const Tensor rows = torch::tensor({2, 0});
  const auto half_of = [](const Tensor& all, int64_t step) { return all.slice(1, 0, 4 * step, step); };  // of columns
  using Call = std::function<void(const Tensor& x, const Tensor& read, const Tensor& ids)>;
  const std::vector<std::pair<std::string, Call>> calls = {
      {"scatter_", [](auto& x, auto& read, auto& i) { x.scatter_(0, i, read); }},
      {"scatter_add_", [](auto& x, auto& read, auto& i) { x.scatter_add_(0, i, read); }},
      {"scatter_reduce_", [](auto& x, auto& read, auto& i) { x.scatter_reduce_(0, i, read, "amax"); }},
      {"index_add_", [&](auto& x, auto& read, auto&) { x.index_add_(0, rows, read.slice(0, 0, 2)); }},
      {"index_copy_", [&](auto& x, auto& read, auto&) { x.index_copy_(0, rows, read.slice(0, 0, 2)); }},
      {"index_reduce_", [&](auto& x, auto& read, auto&) { x.index_reduce_(0, rows, read.slice(0, 0, 2), "amax"); }},
      {"index_put_", [&](auto& x, auto& read, auto&) { x.index_put_({rows}, read[0]); }},
      {"masked_scatter_",
       [](auto& x, auto& read, auto&) {
         x.masked_scatter_(torch::ones({4, 4}, at::kBool), read);
       }},
      {"gather_out", [](auto& x, auto& read, auto& i) { x.slice(0, 0, 2).copy_(read.gather(0, i)); }},
      {"cumsum_", [](auto& x, auto&, auto&) { x.cumsum_(0); }},
      {"addcmul_", [](auto& x, auto& read, auto&) { x.addcmul_(read, read); }},
      {"lerp_", [](auto& x, auto& read, auto&) { x.lerp_(read, 0.5); }},
  };
  const auto throws = [](const auto& call) {
    try {
      call();
      return false;
    } catch (const std::exception&) {
      return true;
    }
  };
  for (const auto& [name, call] : calls)
    for (const auto& read_of : std::vector<std::function<Tensor(const Tensor&)>>{
             [](const Tensor& x) { return x; }, [](const Tensor& x) { return x.alias(); },
             [](const Tensor& x) { return x.t(); }, [](const Tensor& x) { return x.clone(); }})
      for (const Layout& layout : layouts_of_matrix(mesh))
        for (const int64_t step : {1, 2}) {
          const Tensor plain = half_of(whole.clone(), step), x = half_of(distribute_tensor(whole, layout), step);
          const Tensor of_a_copy = half_of(whole.clone(), step);
          call(of_a_copy, read_of(of_a_copy).clone(), ids);
          const bool refused = throws([&] { call(plain, read_of(plain), ids); });
          EXPECT_EQ(throws([&] { call(x, read_of(x), distribute_tensor(ids, layout)); }), refused)
              << name << ' ' << layout.to_string() << " step " << step;
          EXPECT_TRUE(refused || !plain.equal(of_a_copy) || gather(x).equal(plain))
              << name << ' ' << layout.to_string() << " step " << step;
        }
}

// Of which LibTorch's kernels look at no place.
TEST_P(InPlaceViews, OfNoElementsMayBeReadToo) {
  const Mesh mesh({{"x", 2}}, test_devices(2), {.merge = GetParam()});
  const Tensor none = distribute_tensor(torch::zeros({0, 2}), Layout::replicated(mesh, 2));
  const Tensor ids = torch::zeros({0}, torch::kLong);
  EXPECT_EQ(none.index_reduce_(0, ids, none.detach(), "prod").sizes(), none.sizes());
}

// Rows of one tensor, which lie in the same buffers and have no element in common.
TEST_P(InPlaceViews, OfOneBufferWithoutCommonElementsAreWrittenAndRead) {
  const torch::NoGradGuard no_grad;
  const Mesh mesh({{"x", 2}}, test_devices(2), {.merge = GetParam()});
  const Tensor value = torch::arange(24.0).view({6, 4}), ids = torch::tensor({0, 2, 1, 3});
  for (const Layout& layout : layouts_of_matrix(mesh)) {
    const Tensor plain = value.clone(), x = distribute_tensor(value, layout);
    for (const Tensor& whole : {plain, x}) {
      whole.unbind(0)[3].scatter_add_(0, ids, whole.unbind(0)[5]);
      whole[1].index_add_(0, ids, whole[2]);
      whole[0].index_put_({ids}, whole[4]);
      whole.slice(0, 0, 2).scatter_(0, ids.view({1, 4}).remainder(2), whole.slice(0, 2, 4));
      EXPECT_THROW(whole[3].scatter_add_(0, ids, whole[3]), std::exception) << layout.to_string();
      EXPECT_THROW(whole[3].index_put_({ids}, whole[3]), std::exception) << layout.to_string();
      EXPECT_THROW(whole.slice(0, 1, 3).scatter_(0, ids.view({1, 4}).remainder(2), whole.slice(0, 2, 4)),
                   std::exception)
          << layout.to_string();
    }
    EXPECT_TRUE(gather(x).equal(plain)) << layout.to_string();
  }
}

// A column of which one device has nothing: its rows are copies in two buffers, and so are their rows.
TEST_P(InPlaceViews, ThatHadToBeCopiedHaveTheirPlacesToo) {
  const torch::NoGradGuard no_grad;
  const Mesh mesh({{"x", 2}, {"y", 1}}, test_devices(2), {.merge = GetParam()});
  const Tensor value = torch::arange(4.0).view({4, 1}), first = torch::zeros({1, 1}, at::kLong);
  const Tensor plain = value.clone(), x = distribute_tensor(value, Layout({"y", "x"}, mesh));
  for (const Tensor& whole : {plain, x}) {
    whole.vsplit(4)[2].scatter_add_(0, first, whole.vsplit(4)[1]);
    whole.vsplit(2)[0].vsplit(2)[1].scatter_add_(0, first, whole.vsplit(2)[1].vsplit(2)[0]);
    EXPECT_THROW(whole.vsplit(4)[2].scatter_add_(0, first, whole.vsplit(2)[1]), std::exception);
    EXPECT_THROW(whole.vsplit(2)[1].vsplit(2)[0].scatter_add_(0, first, whole.vsplit(4)[2]), std::exception);
  }
  EXPECT_TRUE(gather(x).equal(plain)) << gather(x);
}

// LibTorch makes the memory larger, in which the tensor then finds its first element.
TEST_P(InPlaceViews, OfAllElementsKeepTheirShapeInSeparateBuffers) {
  const torch::NoGradGuard no_grad;
  const Mesh mesh({{"x", 2}}, test_devices(2), {.merge = GetParam()});
  const Tensor x = distribute_tensor(torch::ones({1, 1}), Layout({"x", kUnsharded}, mesh)), alias = x.expand({1, 1});
  const auto grow = [&] { alias.addbmm_(torch::ones({1, 1, 1}), torch::ones({1, 1, 2})); };
  if (GetParam()) return grow();
  EXPECT_THROW(grow(), Error);
}

TEST_P(InPlaceViews, WithoutAnAxisThatIsShardedWriteWhatTheyShow) {
  const torch::NoGradGuard no_grad;
  const Tensor value = torch::arange(11.0).view({11, 1, 1});
  for (const int64_t others : {1, 2}) {
    const Mesh mesh({{"x", 2}, {"y", others}}, test_devices(static_cast<int>(2 * others)), {.merge = GetParam()});
    const Tensor plain = value.clone(), x = distribute_tensor(value, Layout({"x", kUnsharded, "y"}, mesh));
    for (const Tensor& whole : {plain, x}) {
      whole.unbind(0)[4].squeeze(1).mul_(2);
      Tensor row = whole.unbind(0)[5];
      row.squeeze_(1);
      row.mul_(3);
    }
    EXPECT_TRUE(gather(x).equal(plain)) << others;
  }
}

bool is_remade(const Tensor& view) {
  return torch::autograd::impl::get_view_autograd_meta(view)->get_backward_view().has_view_fn();
}

// Autograd repeats view ops for gradients of views of a mesh tensor, and goes by strides for others.
TEST_P(InPlaceViews, LeavePlainTensorsToTheirStrides) {
  const Mesh mesh({{"x", 2}}, test_devices(2), {.merge = GetParam()});
  const Tensor x = distribute_tensor(torch::ones({4, 4}), Layout({"x", kUnsharded}, mesh)).requires_grad_();
  const Tensor loss = (x * 3).sum(), gradient = torch::ones_like(loss);
  const Tensor row = (x * 2).select(0, 1);
  EXPECT_TRUE(is_remade(row));
  EXPECT_TRUE(is_remade(row.unsqueeze(0)));
  EXPECT_FALSE(is_remade(torch::ones({4, 4}).select(0, 1)));  // right behind a view
  EXPECT_THROW(x.select(0, 4), c10::Error);
  EXPECT_FALSE(is_remade(torch::ones({4, 4}).t()));
  bool in_backward = true;
  loss.register_hook([&](const Tensor& gradient_of_loss) {
    gradient_of_loss.expand({2});
    x.select(0, 1);
    in_backward = is_remade(torch::ones({4, 4}).t());
  });
  torch::autograd::backward({loss}, {gradient});
  EXPECT_FALSE(in_backward);
  EXPECT_FALSE(c10::AutogradState::get_tls_state().get_view_replay_enabled());
}

// Its place in memory says what it is a view of.
TEST_P(InPlaceViews, OfAWholeValueHaveAPlace) {
  const Mesh mesh({{"x", 2}}, configure_logical_cpus(2), {.merge = GetParam()});
  const Tensor x = distribute_tensor(torch::ones({4, 4}), Layout({kUnsharded, kUnsharded}, mesh));
  distribute_tensor(torch::ones({4, 4}), Layout({"x", kUnsharded}, mesh)).select(0, 1);
  EXPECT_FALSE(is_remade(x.t()));
  EXPECT_FALSE(is_remade(x.t().select(0, 1)));
}

INSTANTIATE_TEST_SUITE_P(Buffers, InPlaceViews, testing::Bool(),
                         [](const testing::TestParamInfo<bool>& info) { return info.param ? "merged" : "separate"; });

}  // namespace
}  // namespace tutti
