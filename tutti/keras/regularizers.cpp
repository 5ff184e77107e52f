#include "tutti/keras/regularizers.h"

#include <ATen/TensorOperators.h>

#include <utility>

namespace tutti::keras::regularizers {

Regularizer::Regularizer(std::string name, Penalty penalty) : name_(std::move(name)), penalty_(std::move(penalty)) {}

L1::L1(double l1) : Regularizer("l1", [l1](const Tensor& w) { return l1 * w.abs().sum(); }) {}

L2::L2(double l2) : Regularizer("l2", [l2](const Tensor& w) { return l2 * w.square().sum(); }) {}

L1L2::L1L2(const L1L2Options& options)
    : Regularizer("l1_l2",
                  [options](const Tensor& w) { return options.l1 * w.abs().sum() + options.l2 * w.square().sum(); }) {}

}  // namespace tutti::keras::regularizers
