// Ops on images that see no batch and mix no channels: poolings, resizings, sampling at points; and windows as columns.
#include "tutti/tensor/operator_info.h"
#include "tutti/tensor/rules/notation.h"
#include "tutti/tensor/rules/pieces.h"
#include "tutti/tensor/rules/rule_table.h"

namespace tutti {
namespace {

// Every tensor is [n, c, space] or, without a batch, [c, space]. Kernels refuse images without channels.
template <int kSpatial>
bool pool(Planner& p) {
  std::string all = letters(kSpatial, 'P');
  std::vector<Term> terms;
  for (int i = 0; i < p.num_arguments(); ++i) {
    const Spec* spec = p.spec(i);
    if (!spec) continue;
    if (terms.empty()) all = (spec->rank() == kSpatial + 2 ? "nc" : "c") + all;
    if (spec->sizes.size() != all.size()) return false;
    terms.push_back({i, all});
  }
  std::vector<std::string> results(p.info().num_returns, all);
  whole_where_empty(p, "c", terms, results);
  return shard(p, terms, results), true;
}

// upsample_…_backward(grad, output_size, input_size, …)
template <int kSpatial>
bool upsample_backward(Planner& p) {
  std::vector<Term> terms{{0, "nc" + letters(kSpatial, 'P')}};
  std::vector<std::string> results{terms[0].letters};
  whole_where_empty(p, "c", terms, results);
  p.local_sizes(2, shard(p, terms, results)[0], p.integers(2));
  return true;
}

// grid_sampler(input [n, c, space], grid [n, points, coordinates], …) -> [n, c, points]
template <int kSpatial>
bool grid_sampler(Planner& p) {
  const std::string points = letters(kSpatial, 'p');
  return shard(p, {{0, "nc" + letters(kSpatial, 'P')}, {1, "n" + points + "Z"}}, {"nc" + points}), true;
}

// grid_sampler_backward(grad, input, grid, …) -> (grad_input, grad_grid)
template <int kSpatial>
bool grid_sampler_backward(Planner& p) {
  const std::string points = letters(kSpatial, 'p'), input = "nc" + letters(kSpatial, 'P'), grid = "n" + points + "Z";
  return shard(p, {{0, "nc" + points}, {1, input}, {2, grid}}, {input, grid}), true;
}

// im2col(self [n, C, h, w], …) -> [n, columns, windows], and back; without a batch both lack n.
template <int kImage>
bool columns(Planner& p) {
  const bool batched = p.spec(0)->rank() == kImage + 1;
  const std::string lead = batched ? "n" : "";
  const std::string image = lead + "CHW", columns = lead + "KL";
  return shard(p, {{0, kImage == 3 ? image : columns}}, {kImage == 3 ? columns : image}), true;
}

}  // namespace

void add_pooling_rules(RuleTable& table) {
  constexpr auto kNone = SizeArguments::none, kSpace = SizeArguments::unaffected, kRewritten = SizeArguments::rewritten;
  table["avg_pool1d"] = {pool<1>, kNone};
  for (const char* name : {"max_pool2d_with_indices", "max_pool2d_with_indices_backward", "avg_pool2d",
                           "avg_pool2d_backward", "_adaptive_avg_pool2d", "_adaptive_avg_pool2d_backward",
                           "adaptive_max_pool2d", "adaptive_max_pool2d_backward", "max_unpool2d"})
    table[name] = {pool<2>, kSpace};
  for (const char* name : {"max_pool3d_with_indices", "max_pool3d_with_indices_backward", "avg_pool3d",
                           "avg_pool3d_backward", "_adaptive_avg_pool3d", "_adaptive_avg_pool3d_backward",
                           "adaptive_max_pool3d", "adaptive_max_pool3d_backward", "max_unpool3d"})
    table[name] = {pool<3>, kSpace};
  for (const char* name : {"upsample_nearest1d", "_upsample_nearest_exact1d", "upsample_linear1d"}) {
    table[name] = {pool<1>, kSpace};
    table[std::string(name) + "_backward"] = {upsample_backward<1>, kRewritten};
  }
  for (const char* name : {"upsample_nearest2d", "_upsample_nearest_exact2d", "upsample_bilinear2d",
                           "upsample_bicubic2d", "_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa"}) {
    table[name] = {pool<2>, kSpace};
    table[std::string(name) + "_backward"] = {upsample_backward<2>, kRewritten};
  }
  for (const char* name : {"upsample_nearest3d", "_upsample_nearest_exact3d", "upsample_trilinear3d"}) {
    table[name] = {pool<3>, kSpace};
    table[std::string(name) + "_backward"] = {upsample_backward<3>, kRewritten};
  }
  table["grid_sampler_2d"] = {grid_sampler<2>, kNone};
  table["grid_sampler_2d_backward"] = {grid_sampler_backward<2>, kNone};
  table["grid_sampler_3d"] = {grid_sampler<3>, kNone};
  table["grid_sampler_3d_backward"] = {grid_sampler_backward<3>, kNone};
  table["im2col"] = {columns<3>, kNone};
  table["col2im"] = {columns<2>, kSpace};
}

}  // namespace tutti
