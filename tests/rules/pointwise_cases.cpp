#include "rule_cases.h"

namespace tutti::rules {
namespace {

using T = const Tensors&;

}  // namespace

std::vector<RuleCase> pointwise_cases() {
  return {
      {"add", "ij,ij->ij", {{7, 5}, {7, 5}}, one([](T t) { return t[0] + t[1]; })},
      {"add_alpha", "ij,ij->ij", {{7, 5}, {7, 5}}, one([](T t) { return torch::add(t[0], t[1], 3); })},
      {"mul_row", "ij,j->ij", {{7, 5}, {5}}, one([](T t) { return t[0] * t[1]; })},
      {"div_column", "ij,iU->ij", {{7, 5}, {7, 1}}, one([](T t) { return t[0] / t[1]; }), "", "iU,iU"},
      {"sub_scalar_tensor", "ij,->ij", {{7, 5}, {}}, one([](T t) { return t[0] - t[1]; })},
      {"row_and_column", "iU,Vj->ij", {{7, 1}, {1, 5}}, one([](T t) { return t[0] * t[1]; })},
      {"three_axes", "bij,ij->bij", {{2, 3, 5}, {3, 5}}, one([](T t) { return t[0] * t[1]; })},
      {"where", "ij,ij,j->ij", {booleans({7, 5}), {7, 5}, {5}}, one([](T t) {
         return torch::where(t[0], t[1], t[2]);
       })},
      {"addcmul", "ij,ij,j->ij", {{7, 5}, {7, 5}, {5}}, one([](T t) { return torch::addcmul(t[0], t[1], t[2], 0.3); })},
      {"lerp", "ij,ij->ij", {{7, 5}, {7, 5}}, one([](T t) { return torch::lerp(t[0], t[1], 0.3); })},
      {"masked_fill", "ij,ij->ij", {{7, 5}, booleans({7, 5})}, one([](T t) { return t[0].masked_fill(t[1], 2); })},
      {"clamp_tensors", "ij,j,->ij", {{7, 5}, constant({5}), constant({})}, one([](T t) {
         return torch::clamp(t[0], t[1], t[2]);
       })},
      {"in_place_chain",
       "ij,j->ij",
       {{7, 5}, {5}},
       one([](T t) { return t[0].clone().mul_(t[1]).add_(t[1], 2).tanh_(); }),
       "J",
       "j",
       /*first_decides=*/true},
      {"in_place_keeps_its_layout",
       "ij,ij->ij",
       {{7, 5}, {7, 5}},
       one([](T t) { return t[0].clone().add_(t[1]); }),
       "",
       "",
       /*first_decides=*/true},
      {"copy",
       "ij,ij->ij",
       {{7, 5}, {7, 5}},
       one([](T t) { return torch::zeros_like(t[0]).copy_(t[1]); }),
       "",
       "",
       /*first_decides=*/true},
      {"maximum_into",
       "ij,ij->ij",
       {constant({7, 5}), constant({7, 5})},
       one([](T t) {
         Tensor out = t[0].clone();
         return torch::max_out(out, t[0], t[1]);
       }),
       "IJ",
       "",
       /*first_decides=*/true},
      {"to_float", "ij->ij", {{7, 5}}, one([](T t) { return t[0].to(torch::kFloat).to(torch::kDouble); })},
      {"gelu", "ij->ij", {{7, 5}}, one([](T t) { return torch::gelu(t[0]); })},
      {"prelu", "ij,j->ij", {{7, 5}, {5}}, one([](T t) { return torch::prelu(t[0], t[1]); })},
      {"prelu_of_one", "ij,->ij", {{7, 5}, {}}, one([](T t) { return torch::prelu(t[0], t[1].view({1})); })},
      {"log_sigmoid", "ij->ij", {{7, 5}}, one([](T t) { return torch::log_sigmoid(t[0]); })},
      {"softplus", "ij->ij", {{7, 5}}, one([](T t) { return torch::softplus(t[0]); })},
      {"elu", "ij->ij", {{7, 5}}, one([](T t) { return torch::elu(t[0], 0.7); })},
      {"selu", "ij->ij", {{7, 5}}, one([](T t) { return torch::selu(t[0]); })},
      {"hardswish", "ij->ij", {{7, 5}}, one([](T t) { return torch::hardswish(t[0]); })},
      {"hardtanh", "ij->ij", {{7, 5}}, one([](T t) { return torch::hardtanh(t[0], -0.5, 0.5); })},
      {"relu6", "ij->ij", {{7, 5}}, one([](T t) { return torch::relu6(t[0]); })},
      {"softsign", "ij->ij", {{7, 5}}, one([](T t) { return t[0] / (t[0].abs() + 1); })},
      {"squared_difference", "ij,j->ij", {{7, 5}, {5}}, one([](T t) { return (t[0] - t[1]).square(); })},
      {"l2_loss", "ij->", {{7, 5}}, one([](T t) { return t[0].square().sum() / 2; })},
      {"bitwise", "ij,ij->ij", {integers({7, 5}, 9), integers({7, 5}, 9)}, one([](T t) {
         return (t[0] & t[1]) | (t[0] ^ t[1]);
       })},
      {"foreach_add", "ij,ij->ij", {{7, 5}, {7, 5}}, one([](T t) {
         return torch::_foreach_add(Tensors{t[0]}, Tensors{t[1]})[0];
       })},
      {"foreach_mul_in_place",
       "ij,ij->ij",
       {constant({7, 5}), constant({7, 5})},
       one([](T t) {
         Tensor y = t[0].clone();
         torch::_foreach_mul_(Tensors{y}, Tensors{t[1]});
         return y;
       }),
       "",
       "",
       /*first_decides=*/true},
      {"complex", "ij,ij->ij", {{7, 5}, {7, 5}}, one([](T t) { return torch::complex(t[0], t[1]).abs(); })},
  };
}

}  // namespace tutti::rules
