#include "rule_cases.h"

namespace tutti::rules {
namespace {

using T = const Tensors&;

}  // namespace

std::vector<RuleCase> matmul_cases() {
  return {
      {"mm", "ik,kj->ij", {{7, 5}, {5, 11}}, one([](T t) { return t[0].mm(t[1]); })},
      {"mm_of_transposed", "ki,jk->ij", {{5, 7}, {3, 5}}, one([](T t) { return t[0].t().mm(t[1].t()); })},
      {"bmm", "bik,bkj->bij", {{3, 4, 5}, {3, 5, 2}}, one([](T t) { return t[0].bmm(t[1]); })},
      {"mv", "ik,k->i", {{7, 5}, {5}}, one([](T t) { return t[0].mv(t[1]); })},
      {"dot", "k,k->", {{7}, {7}}, one([](T t) { return t[0].dot(t[1]); })},
      {"outer", "i,j->ij", {{7}, {5}}, one([](T t) { return t[0].outer(t[1]); })},
      {"vdot", "k,k->", {{7}, {7}}, one([](T t) { return torch::vdot(t[0], t[1]); })},
      {"inner", "ik,jk->ij", {{7, 5}, {3, 5}}, one([](T t) { return torch::inner(t[0], t[1]); })},
      {"addmm", "j,ik,kj->ij", {{11}, {7, 5}, {5, 11}}, one([](T t) {
         return torch::addmm(t[0], t[1], t[2], 0.5, 2);
       })},
      {"addmm_of_a_column", "iU,ik,kj->ij", {{7, 1}, {7, 5}, {5, 11}}, one([](T t) {
         return torch::addmm(t[0], t[1], t[2]);
       })},
      {"addmm_in_place",
       "ij,ik,kj->ij",
       {{7, 3}, {7, 5}, {5, 3}},
       one([](T t) { return t[0].clone().addmm_(t[1], t[2], 0.5, 2); }),
       "ij,ij",
       "",
       /*first_decides=*/true},
      {"addmv", "i,ik,k->i", {{7}, {7, 5}, {5}}, one([](T t) { return torch::addmv(t[0], t[1], t[2], 0.5, 2); })},
      {"addr", "ij,i,j->ij", {{7, 5}, {7}, {5}}, one([](T t) { return torch::addr(t[0], t[1], t[2], 0.5, 2); })},
      {"baddbmm", "bij,bik,bkj->bij", {{3, 4, 2}, {3, 4, 5}, {3, 5, 2}}, one([](T t) {
         return torch::baddbmm(t[0], t[1], t[2], 0.5, 2);
       })},
      {"matmul_1d_1d", "k,k->", {{7}, {7}}, one([](T t) { return t[0].matmul(t[1]); })},
      {"matmul_1d_2d", "k,kj->j", {{7}, {7, 5}}, one([](T t) { return t[0].matmul(t[1]); })},
      {"matmul_2d_1d", "ik,k->i", {{7, 5}, {5}}, one([](T t) { return t[0].matmul(t[1]); })},
      {"matmul_1d_3d", "k,bkj->bj", {{5}, {3, 5, 7}}, one([](T t) { return t[0].matmul(t[1]); })},
      {"matmul_3d_1d", "bik,k->bi", {{3, 7, 5}, {5}}, one([](T t) { return t[0].matmul(t[1]); })},
      {"matmul_3d_2d", "bik,kj->bij", {{3, 7, 5}, {5, 2}}, one([](T t) { return t[0].matmul(t[1]); })},
      {"matmul_2d_3d", "ik,bkj->bij", {{7, 5}, {3, 5, 2}}, one([](T t) { return t[0].matmul(t[1]); })},
      {"matmul_3d_3d", "bik,bkj->bij", {{3, 7, 5}, {3, 5, 2}}, one([](T t) { return t[0].matmul(t[1]); })},
      {"matmul_of_one_batch", "Uik,bkj->bij", {{1, 7, 5}, {3, 5, 2}}, one([](T t) { return t[0].matmul(t[1]); })},
      {"matmul_4d_4d", "bhik,bhkj->bhij", {{3, 2, 4, 5}, {3, 2, 5, 3}}, one([](T t) { return t[0].matmul(t[1]); })},
      {"matmul_4d_3d", "bhik,hkj->bhij", {{3, 2, 4, 5}, {2, 5, 3}}, one([](T t) { return t[0].matmul(t[1]); })},
      {"linear", "bk,ok,o->bo", {{7, 5}, {3, 5}, {3}}, one([](T t) { return torch::linear(t[0], t[1], t[2]); })},
      {"linear_1d", "k,ok,o->o", {{5}, {3, 5}, {3}}, one([](T t) { return torch::linear(t[0], t[1], t[2]); })},
      {"linear_3d", "bsk,ok,o->bso", {{4, 7, 5}, {3, 5}, {3}}, one([](T t) {
         return torch::linear(t[0], t[1], t[2]);
       })},
      {"linear_without_bias", "bsk,ok->bso", {{4, 7, 5}, {3, 5}}, one([](T t) { return torch::linear(t[0], t[1]); })},
      {"einsum_product", "ik,kj->ij", {{7, 5}, {5, 3}}, one([](T t) {
         return torch::einsum("ik,kj->ij", {t[0], t[1]});
       })},
      {"einsum_without_result", "ik,kj->ij", {{7, 5}, {5, 3}}, one([](T t) {
         return torch::einsum("ik,kj", {t[0], t[1]});
       })},
      {"einsum_attention", "bqhd,bkhd->bhqk", {{2, 3, 4, 5}, {2, 7, 4, 5}}, one([](T t) {
         return torch::einsum("bqhd, bkhd -> bhqk", {t[0], t[1]});
       })},
      {"einsum_sum_of_one",
       "bik,bkj->j",
       {{3, 4, 5}, {3, 5, 2}},
       one([](T t) {
         return torch::einsum("bik,bkj->j", {t[0], t[1]});
       }),
       "bk",
       "bk"},
      {"einsum_in_capitals", "bik,kj->bij", {{3, 4, 5}, {5, 2}}, one([](T t) {
         return torch::einsum("BIk,kJ->BIJ", {t[0], t[1]});
       })},
      {"einsum_of_three",
       "bi,bij,bj->b",
       {{3, 4}, {3, 4, 5}, {3, 5}},
       one([](T t) {
         return torch::einsum("bi,bij,bj->b", {t[0], t[1], t[2]});
       }),
       "bj",
       "bj"},
      {"einsum_transpose", "ijk->kij", {{3, 4, 5}}, one([](T t) { return torch::einsum("ijk->kij", {t[0]}); })},
  };
}

}  // namespace tutti::rules
