#include "rule_cases.h"

namespace tutti::rules {
namespace {

using T = const Tensors&;

}  // namespace

std::vector<RuleCase> reduction_cases() {
  return {
      {"sum", "ij->i", {{7, 5}}, one([](T t) { return t[0].sum(1); })},
      {"sum_of_all", "ijk->", {{3, 5, 2}}, one([](T t) { return t[0].sum(); })},
      {"sum_of_two_axes", "ijk->j", {{3, 5, 2}}, one([](T t) {
         return t[0].sum(at::IntArrayRef({0, 2}));
       })},
      {"sum_kept", "ij->uj", {{7, 5}}, one([](T t) { return t[0].sum(0, true); })},
      {"nansum", "ij->j", {{7, 5}}, one([](T t) { return torch::nansum(t[0], 0); })},
      {"mean", "ij->j", {{7, 5}}, one([](T t) { return t[0].mean(0); })},
      {"mean_kept", "ij->iu", {{7, 5}}, one([](T t) { return t[0].mean(-1, true); })},
      {"mean_of_all", "ij->", {{7, 5}}, one([](T t) { return t[0].mean(); })},
      {"prod", "ij->i", {{7, 5}}, one([](T t) { return t[0].prod(1); }), "", "IJ,I,I,I"},
      {"prod_of_all", "ij->", {{7, 5}}, one([](T t) { return t[0].prod(); }), "", "IJ"},
      {"max_of_all", "ij->", {{7, 5}}, one([](T t) { return t[0].max(); }), "", ",IJ"},
      {"min_of_all", "ij->", {{7, 5}}, one([](T t) { return t[0].min(); }), "", ",IJ"},
      {"amax", "ij->j", {{7, 5}}, one([](T t) { return t[0].amax(0); }), "", "j"},
      {"amin_kept", "ij->iu", {{7, 5}}, one([](T t) { return t[0].amin(1, true); }), "", "i"},
      {"amax_of_all",
       "ijk->",
       {{3, 5, 2}},
       one([](T t) {
         return t[0].amax({0, 1, 2});
       }),
       "",
       ","},
      {"aminmax",
       "ij->i,i",
       {{7, 5}},
       [](T t) -> Tensors {
         const auto [low, high] = torch::aminmax(t[0], 1);
         return {low, high};
       },
       "",
       "i,i"},
      {"any", "ij->i", {booleans({7, 5})}, one([](T t) { return t[0].any(1); })},
      {"all_of_all", "ij->", {booleans({7, 5})}, one([](T t) { return t[0].all(); })},
      {"any_of_bytes", "ij->j", {integers({7, 5}, 2)}, one([](T t) { return t[0].to(torch::kByte).any(0); })},
      {"count_nonzero", "ij->j", {integers({7, 5}, 2)}, one([](T t) {
         return torch::count_nonzero(t[0], at::IntArrayRef{0});
       })},
      {"max",
       "ij->i,i",
       {{7, 5}},
       [](T t) -> Tensors {
         const auto [value, index] = t[0].max(1);
         return {value, index};
       }},
      {"max_of_equals",
       "ij->j,j",
       {integers({7, 5}, 2)},
       [](T t) -> Tensors {
         const auto [value, index] = t[0].max(0);
         return {value, index};
       }},
      {"min_kept",
       "ij->uj,uj",
       {{7, 5}},
       [](T t) -> Tensors {
         const auto [value, index] = t[0].min(0, true);
         return {value, index};
       }},
      {"max_of_nan",
       "ij->i,i",
       {constant({7, 5})},
       [](T t) -> Tensors {
         const auto [value, index] = t[0].masked_fill(t[0] < -0.5, NAN).max(1);
         return {value, index};
       }},
      {"argmax", "ij->i", {constant({7, 5})}, one([](T t) { return t[0].argmax(1); }), "i", ""},
      {"argmin_of_equals", "ij->j", {integers({7, 5}, 3)}, one([](T t) { return t[0].argmin(0); }), "j", ""},
      {"argmax_of_all", "IJ->", {constant({7, 5})}, one([](T t) { return t[0].argmax(); })},
      {"argmax_kept", "ij->iu", {constant({7, 5})}, one([](T t) { return t[0].argmax(-1, true); }), "i", ""},
      {"topk",
       "iJ->iK,iK",
       {{7, 5}},
       [](T t) -> Tensors {
         const auto [value, index] = t[0].topk(3, 1);
         return {value, index};
       }},
      {"sort",
       "Ij->Ij,Ij",
       {{7, 5}},
       [](T t) -> Tensors {
         const auto [value, index] = t[0].sort(0, true);
         return {value, index};
       }},
      {"stable_sort",
       "iJ->iJ,iJ",
       {integers({7, 5}, 3)},
       [](T t) -> Tensors {
         const auto [value, index] = t[0].sort(/*stable=*/true, 1, false);
         return {value, index};
       }},
      {"argsort", "iJ->iJ", {constant({7, 5})}, one([](T t) {
         return torch::argsort(t[0], int64_t{1}, /*descending=*/true);
       })},
      {"median",
       "iJ->i,i",
       {{7, 5}},
       [](T t) -> Tensors {
         const auto [value, index] = t[0].median(1);
         return {value, index};
       }},
      {"median_of_all", "IJ->", {constant({7, 5})}, one([](T t) { return t[0].median(); })},
      {"kthvalue",
       "iJ->i,i",
       {{7, 5}},
       [](T t) -> Tensors {
         const auto [value, index] = t[0].kthvalue(2, 1);
         return {value, index};
       }},
      {"mode",
       "iJ->i,i",
       {integers({7, 5}, 3)},
       [](T t) -> Tensors {
         const auto [value, index] = t[0].mode(1);
         return {value, index};
       }},
      {"cumsum", "iJ->iJ", {{7, 5}}, one([](T t) { return t[0].cumsum(1); })},
      {"cumprod", "Ij->Ij", {{7, 5}}, one([](T t) { return t[0].cumprod(0); }), "", "IJ,IJ,"},
      {"logcumsumexp", "iJ->iJ", {{7, 5}}, one([](T t) { return t[0].logcumsumexp(1); })},
      {"cummax",
       "iJ->iJ,iJ",
       {constant({7, 5})},
       [](T t) -> Tensors {
         const auto [value, index] = t[0].cummax(1);
         return {value, index};
       }},
      {"norm", "ij->", {{7, 5}}, one([](T t) { return t[0].norm(); })},
      {"norm_1", "ij->i", {{7, 5}}, one([](T t) { return t[0].norm(1, 1); })},
      {"norm_2_kept", "ij->uj", {{7, 5}}, one([](T t) { return t[0].norm(2, 0, true); })},
      {"norm_3", "ij->j", {{7, 5}}, one([](T t) { return t[0].norm(3, 0); })},
      {"norm_inf", "ij->", {{7, 5}}, one([](T t) { return torch::linalg_vector_norm(t[0], INFINITY); }), "", ","},
      {"vector_norm", "ijk->j", {{3, 5, 2}}, one([](T t) {
         return torch::linalg_vector_norm(t[0], 2, at::IntArrayRef{0, 2});
       })},
      {"norm_0", "ij->i", {constant({7, 5})}, one([](T t) {
         return torch::linalg_vector_norm(t[0], 0, at::IntArrayRef{1});
       })},
      {"logsumexp", "ij->i", {{7, 5}}, one([](T t) { return t[0].logsumexp(1); }), "i", ""},
      {"logsumexp_of_two",
       "ijk->uju",
       {{3, 5, 2}},
       one([](T t) {
         return t[0].logsumexp(at::IntArrayRef({0, 2}), true);
       }),
       "j",
       ""},
      {"logsumexp_of_infinities",
       "ij->i",
       {constant({7, 5})},
       one([](T t) { return t[0].masked_fill(t[0] < 0, -INFINITY).logsumexp(1); }),
       "i",
       ""},
      {"var", "ij->i", {{7, 5}}, one([](T t) { return t[0].var(1); }), "i", "i,i"},
      {"var_of_all", "ij->", {{7, 5}}, one([](T t) { return t[0].var(); }), ",", ","},
      {"std", "ij->j", {{7, 5}}, one([](T t) { return t[0].std(0, /*unbiased=*/false); }), "j", "j"},
      {"var_mean",
       "ij->i,i",
       {{7, 5}},
       [](T t) -> Tensors {
         const auto [variance, mean] = torch::var_mean(t[0], 1, true, false);
         return {variance, mean};
       },
       "i",
       "i,i"},
      {"std_mean",
       "ij->uj,uj",
       {{7, 5}},
       [](T t) -> Tensors {
         const auto [deviation, mean] = torch::std_mean(t[0], 0, true, true);
         return {deviation, mean};
       },
       "j",
       "j"},
      {"softmax", "ij->ij", {{7, 5}}, one([](T t) { return t[0].softmax(1); }), "i,i", "i"},
      {"softmax_of_the_first", "ijk->ijk", {{5, 3, 2}}, one([](T t) { return t[0].softmax(0); }), "jk,jk", "jk"},
      {"log_softmax", "ij->ij", {{7, 5}}, one([](T t) { return t[0].log_softmax(-1); }), "i,i", "i"},
      {"glu", "iJ->iK", {{7, 6}}, one([](T t) { return torch::glu(t[0], 1); })},
      {"dist", "ij,ij->", {{7, 5}, {7, 5}}, one([](T t) { return torch::dist(t[0], t[1]); })},
      {"cosine_similarity",
       "ij,ij->i",
       {{7, 5}, {7, 5}},
       one([](T t) { return torch::cosine_similarity(t[0], t[1], 1); }),
       "i,i,i,i",
       "i,i,i,i"},
      {"normalize", "ij->ij", {{7, 5}}, one([](T t) { return torch::nn::functional::normalize(t[0]); }), "i", "i"},
  };
}

}  // namespace tutti::rules
