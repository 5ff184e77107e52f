// What draws goes by memory: of separate buffers come the numbers, and the strides, of one device.
#include <map>

#include "like_one_device.h"
#include "tutti/tensor/strides.h"

namespace tutti::rules {
namespace {

using torch::Tensor;

TEST(DrawnNumbers, AreThoseOfOneDeviceHoweverTheOperandsLie) {
  const std::map<std::string, TensorFunction> functions = {
      {"exponential", [](const Tensor& t) { return at::exponential(t); }},
      {"log_normal", [](const Tensor& t) { return at::log_normal(t); }},
      {"geometric", [](const Tensor& t) { return at::geometric(t, 0.3); }},
      {"cauchy", [](const Tensor& t) { return at::cauchy(t); }},
      {"uniform", [](const Tensor& t) { return at::uniform(t); }},
      {"random", [](const Tensor& t) { return at::random(t, 0, 99); }},
      {"normal_functional", [](const Tensor& t) { return at::normal_functional(t); }},
      {"normal of means", [](const Tensor& t) { return at::normal(t, 2.0); }},
      {"normal of deviations", [](const Tensor& t) { return at::normal(0.0, t); }},
      {"bernoulli", [](const Tensor& t) { return at::bernoulli(t); }},
      {"bernoulli of p", [](const Tensor& t) { return at::bernoulli(t, 0.4); }},
      {"rand_like", [](const Tensor& t) { return at::rand_like(t); }},
      {"randperm of rows", [](const Tensor& t) { return t.index({at::randperm(t.size(0))}); }},
      {"poisson", [](const Tensor& t) { return at::poisson(t * 9); }},
      {"binomial", [](const Tensor& t) { return at::binomial(t * 0 + 9, t); }},
      {"native_dropout", [](const Tensor& t) { return std::get<0>(at::native_dropout(t, 0.5, true)); }},
      {"bernoulli_ of probabilities", [](const Tensor& t) { return at::empty_like(t).bernoulli_(t); }},
      {"rrelu", [](const Tensor& t) { return at::rrelu(t - 0.5, 0.1, 0.4, true); }},
  };
  const Tensor rows = torch::arange(1.0, 25.0).view({4, 6}) / 32, columns = rows.t().contiguous().t(),
               deep = rows.view({2, 4, 3}).permute({1, 2, 0});
  for (const auto& [name, f] : functions)
    for (const Tensor& x : {rows, columns, deep, columns.slice(1, 0, 6, 2)}) {
      SCOPED_TRACE(name);
      SCOPED_TRACE(x.strides());
      torch::manual_seed(3);
      const Tensor wanted = f(x);
      torch::manual_seed(3);
      std::vector<std::string> axes(static_cast<size_t>(x.dim()), "-");
      axes[0] = "x";
      const Tensor seen = f(distribute_tensor(x, layout_on(line_of(2, /*merge=*/false), axes)));
      EXPECT_TRUE(torch::equal(gather(seen), wanted)) << gather(seen) << "\nnot\n" << wanted;
      EXPECT_TRUE(are_same_strides(wanted.sizes(), seen.strides(), wanted.strides()))
          << seen.strides() << " and not " << wanted.strides();
    }
}

}  // namespace
}  // namespace tutti::rules
