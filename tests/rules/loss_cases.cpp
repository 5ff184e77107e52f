#include "rule_cases.h"

namespace tutti::rules {
namespace {

using T = const Tensors&;

}  // namespace

std::vector<RuleCase> loss_cases() {
  return {
      {"mse_mean", "ij,ij->", {{7, 5}, {7, 5}}, one([](T t) {
         return torch::nn::functional::mse_loss(t[0], t[1], torch::nn::MSELossOptions().reduction(torch::kMean));
       })},
      {"mse_sum", "ij,ij->", {{7, 5}, {7, 5}}, one([](T t) {
         return torch::nn::functional::mse_loss(t[0], t[1], torch::nn::MSELossOptions().reduction(torch::kSum));
       })},
      {"mse_none", "ij,ij->ij", {{7, 5}, {7, 5}}, one([](T t) {
         return torch::nn::functional::mse_loss(t[0], t[1], torch::nn::MSELossOptions().reduction(torch::kNone));
       })},
      {"l1_mean", "ij,ij->", {{7, 5}, {7, 5}}, one([](T t) {
         return torch::nn::functional::l1_loss(t[0], t[1], torch::nn::L1LossOptions().reduction(torch::kMean));
       })},
      {"l1_sum", "ij,ij->", {{7, 5}, {7, 5}}, one([](T t) {
         return torch::nn::functional::l1_loss(t[0], t[1], torch::nn::L1LossOptions().reduction(torch::kSum));
       })},
      {"l1_none", "ij,ij->ij", {{7, 5}, {7, 5}}, one([](T t) {
         return torch::nn::functional::l1_loss(t[0], t[1], torch::nn::L1LossOptions().reduction(torch::kNone));
       })},
      {"smooth_l1_mean", "ij,ij->", {{7, 5}, {7, 5}}, one([](T t) {
         return torch::nn::functional::smooth_l1_loss(t[0], t[1],
                                                      torch::nn::SmoothL1LossOptions().reduction(torch::kMean));
       })},
      {"smooth_l1_sum", "ij,ij->", {{7, 5}, {7, 5}}, one([](T t) {
         return torch::nn::functional::smooth_l1_loss(t[0], t[1],
                                                      torch::nn::SmoothL1LossOptions().reduction(torch::kSum));
       })},
      {"smooth_l1_none", "ij,ij->ij", {{7, 5}, {7, 5}}, one([](T t) {
         return torch::nn::functional::smooth_l1_loss(t[0], t[1],
                                                      torch::nn::SmoothL1LossOptions().reduction(torch::kNone));
       })},
      {"huber_mean", "ij,ij->", {{7, 5}, {7, 5}}, one([](T t) {
         return torch::nn::functional::huber_loss(t[0], t[1], torch::nn::HuberLossOptions().reduction(torch::kMean));
       })},
      {"huber_sum", "ij,ij->", {{7, 5}, {7, 5}}, one([](T t) {
         return torch::nn::functional::huber_loss(t[0], t[1], torch::nn::HuberLossOptions().reduction(torch::kSum));
       })},
      {"huber_none", "ij,ij->ij", {{7, 5}, {7, 5}}, one([](T t) {
         return torch::nn::functional::huber_loss(t[0], t[1], torch::nn::HuberLossOptions().reduction(torch::kNone));
       })},
      {"bce_mean", "ij,ij->", {fractions({7, 5}), constant(fractions({7, 5}))}, one([](T t) {
         return torch::nn::functional::binary_cross_entropy(t[0], t[1],
                                                            torch::nn::BCELossOptions().reduction(torch::kMean));
       })},
      {"bce_sum", "ij,ij->", {fractions({7, 5}), constant(fractions({7, 5}))}, one([](T t) {
         return torch::nn::functional::binary_cross_entropy(t[0], t[1],
                                                            torch::nn::BCELossOptions().reduction(torch::kSum));
       })},
      {"bce_none", "ij,ij->ij", {fractions({7, 5}), constant(fractions({7, 5}))}, one([](T t) {
         return torch::nn::functional::binary_cross_entropy(t[0], t[1],
                                                            torch::nn::BCELossOptions().reduction(torch::kNone));
       })},
      {"bce_with_logits_mean",
       "ij,ij->",
       {{7, 5}, constant(fractions({7, 5}))},
       one([](T t) {
         return torch::nn::functional::binary_cross_entropy_with_logits(
             t[0], t[1], torch::nn::BCEWithLogitsLossOptions().reduction(torch::kMean));
       }),
       "",
       "IJ,IJ"},
      {"bce_with_logits_sum",
       "ij,ij->",
       {{7, 5}, constant(fractions({7, 5}))},
       one([](T t) {
         return torch::nn::functional::binary_cross_entropy_with_logits(
             t[0], t[1], torch::nn::BCEWithLogitsLossOptions().reduction(torch::kSum));
       }),
       "",
       "IJ,IJ"},
      {"bce_with_logits_none",
       "ij,ij->ij",
       {{7, 5}, constant(fractions({7, 5}))},
       one([](T t) {
         return torch::nn::functional::binary_cross_entropy_with_logits(
             t[0], t[1], torch::nn::BCEWithLogitsLossOptions().reduction(torch::kNone));
       }),
       "",
       "IJ,IJ"},
      {"kl_div_mean", "ij,ij->", {{7, 5}, fractions({7, 5})}, one([](T t) {
         return torch::kl_div(t[0], t[1], at::Reduction::Mean);
       })},
      {"kl_div_sum", "ij,ij->", {{7, 5}, fractions({7, 5})}, one([](T t) {
         return torch::kl_div(t[0], t[1], at::Reduction::Sum);
       })},
      {"kl_div_none", "ij,ij->ij", {{7, 5}, fractions({7, 5})}, one([](T t) {
         return torch::kl_div(t[0], t[1], at::Reduction::None);
       })},
      {"soft_margin_mean", "ij,ij->", {{7, 5}, constant({7, 5})}, one([](T t) {
         return torch::nn::functional::soft_margin_loss(t[0], t[1],
                                                        torch::nn::SoftMarginLossOptions().reduction(torch::kMean));
       })},
      {"soft_margin_sum", "ij,ij->", {{7, 5}, constant({7, 5})}, one([](T t) {
         return torch::nn::functional::soft_margin_loss(t[0], t[1],
                                                        torch::nn::SoftMarginLossOptions().reduction(torch::kSum));
       })},
      {"soft_margin_none", "ij,ij->ij", {{7, 5}, constant({7, 5})}, one([](T t) {
         return torch::nn::functional::soft_margin_loss(t[0], t[1],
                                                        torch::nn::SoftMarginLossOptions().reduction(torch::kNone));
       })},
      {"hinge_embedding_mean", "ij,ij->", {{7, 5}, constant({7, 5})}, one([](T t) {
         return torch::nn::functional::hinge_embedding_loss(
             t[0], t[1], torch::nn::HingeEmbeddingLossOptions().reduction(torch::kMean));
       })},
      {"hinge_embedding_sum", "ij,ij->", {{7, 5}, constant({7, 5})}, one([](T t) {
         return torch::nn::functional::hinge_embedding_loss(
             t[0], t[1], torch::nn::HingeEmbeddingLossOptions().reduction(torch::kSum));
       })},
      {"hinge_embedding_none", "ij,ij->ij", {{7, 5}, constant({7, 5})}, one([](T t) {
         return torch::nn::functional::hinge_embedding_loss(
             t[0], t[1], torch::nn::HingeEmbeddingLossOptions().reduction(torch::kNone));
       })},
      {"kl_div_batchmean", "ij,ij->", {{7, 5}, fractions({7, 5})}, one([](T t) {
         return torch::nn::functional::kl_div(t[0], t[1], torch::nn::KLDivLossOptions().reduction(torch::kBatchMean));
       })},
      {"bce_weighted",
       "ij,ij,j,j->",
       {{7, 5}, constant(fractions({7, 5})), constant(positive({5})), constant(positive({5}))},
       one([](T t) { return torch::binary_cross_entropy_with_logits(t[0], t[1], t[2], t[3]); }),
       "",
       "IJ,IJ"},
      {"mse_broadcast", "ij,j->", {{7, 5}, {5}}, one([](T t) { return torch::mse_loss(t[0], t[1].expand_as(t[0])); })},
      {"nll_mean",
       "nc,n->",
       {{7, 5}, integers({7}, 5)},
       one([](T t) { return torch::nll_loss(t[0], t[1], {}, at::Reduction::Mean); }),
       ",",
       ""},
      {"nll_weighted_mean",
       "nc,n,c->",
       {{7, 5}, integers({7}, 5), constant(positive({5}))},
       one([](T t) { return torch::nll_loss(t[0], t[1], t[2], at::Reduction::Mean); }),
       ",",
       ""},
      {"nll_ignoring_mean",
       "nc,n->",
       {{7, 5}, integers({7}, 5)},
       one([](T t) { return torch::nll_loss(t[0], t[1], {}, at::Reduction::Mean, /*ignore_index=*/2); }),
       ",",
       ""},
      {"nll_2d_mean",
       "nchw,nhw->",
       {{3, 5, 2, 3}, integers({3, 2, 3}, 5)},
       one([](T t) { return torch::nll_loss_nd(t[0], t[1], {}, at::Reduction::Mean, /*ignore_index=*/1); }),
       ",",
       ""},
      {"cross_entropy_mean",
       "nc,n->",
       {{7, 5}, integers({7}, 5)},
       one([](T t) { return torch::cross_entropy_loss(t[0], t[1], {}, at::Reduction::Mean); }),
       "n,n,",
       "n"},
      {"nll_sum",
       "nc,n->",
       {{7, 5}, integers({7}, 5)},
       one([](T t) { return torch::nll_loss(t[0], t[1], {}, at::Reduction::Sum); }),
       ",",
       ""},
      {"nll_weighted_sum",
       "nc,n,c->",
       {{7, 5}, integers({7}, 5), constant(positive({5}))},
       one([](T t) { return torch::nll_loss(t[0], t[1], t[2], at::Reduction::Sum); }),
       ",",
       ""},
      {"nll_ignoring_sum",
       "nc,n->",
       {{7, 5}, integers({7}, 5)},
       one([](T t) { return torch::nll_loss(t[0], t[1], {}, at::Reduction::Sum, /*ignore_index=*/2); }),
       ",",
       ""},
      {"nll_2d_sum",
       "nchw,nhw->",
       {{3, 5, 2, 3}, integers({3, 2, 3}, 5)},
       one([](T t) { return torch::nll_loss_nd(t[0], t[1], {}, at::Reduction::Sum, /*ignore_index=*/1); }),
       ",",
       ""},
      {"cross_entropy_sum",
       "nc,n->",
       {{7, 5}, integers({7}, 5)},
       one([](T t) { return torch::cross_entropy_loss(t[0], t[1], {}, at::Reduction::Sum); }),
       "n,n,",
       "n"},
      {"nll_none",
       "nc,n->n",
       {{7, 5}, integers({7}, 5)},
       one([](T t) { return torch::nll_loss(t[0], t[1], {}, at::Reduction::None); }),
       ",",
       ""},
      {"nll_weighted_none",
       "nc,n,c->n",
       {{7, 5}, integers({7}, 5), constant(positive({5}))},
       one([](T t) { return torch::nll_loss(t[0], t[1], t[2], at::Reduction::None); }),
       ",",
       ""},
      {"nll_ignoring_none",
       "nc,n->n",
       {{7, 5}, integers({7}, 5)},
       one([](T t) { return torch::nll_loss(t[0], t[1], {}, at::Reduction::None, /*ignore_index=*/2); }),
       ",",
       ""},
      {"nll_2d_none",
       "nchw,nhw->nhw",
       {{3, 5, 2, 3}, integers({3, 2, 3}, 5)},
       one([](T t) { return torch::nll_loss_nd(t[0], t[1], {}, at::Reduction::None, /*ignore_index=*/1); }),
       ",",
       ""},
      {"cross_entropy_none",
       "nc,n->n",
       {{7, 5}, integers({7}, 5)},
       one([](T t) { return torch::cross_entropy_loss(t[0], t[1], {}, at::Reduction::None); }),
       "n,n,",
       "n"},
      {"nll_of_one", "c,->", {{5}, integers({}, 5)}, one([](T t) { return torch::nll_loss(t[0], t[1]); }), ",", ""},
      {"cross_entropy_smoothed",
       "nc,n->",
       {{7, 5}, integers({7}, 5)},
       one([](T t) {
         return torch::cross_entropy_loss(t[0], t[1], {}, at::Reduction::Mean, /*ignore_index=*/3,
                                          /*label_smoothing=*/0.1);
       }),
       "n,n,n,,,",
       "n,n"},
      {"cross_entropy_of_probabilities",
       "nc,nc->",
       {{7, 5}, fractions({7, 5})},
       one([](T t) { return torch::cross_entropy_loss(t[0], t[1]); }),
       "n,n,n,",
       "n,n"},
      {"cross_entropy_of_a_large_vocabulary",
       "nc,n->",
       {{3, 101}, integers({3}, 101)},
       one([](T t) { return torch::cross_entropy_loss(t[0], t[1]); }),
       "n,n,",
       "n"},
      {"cross_entropy_2d",
       "nchw,nhw->",
       {{3, 5, 2, 3}, integers({3, 2, 3}, 5)},
       one([](T t) { return torch::cross_entropy_loss(t[0], t[1]); }),
       "nhw,nhw,",
       "nhw"},
  };
}

}  // namespace tutti::rules
