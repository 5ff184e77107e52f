#include "tutti/function/native_trial.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_strided.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>

#include "tutti/tensor/random_seed.h"

namespace tutti {
namespace {

double seconds_of(FunctionRef<void()> f) {
  const auto begin = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

bool passes(const NativeTrial& trial) {
  constexpr int kRuns = 4, kMostRuns = 16;
  constexpr double kMostSeconds = 0.005;  // for more than kRuns
  const auto generator = make_generator(1, at::kCPU);
  double own = std::numeric_limits<double>::infinity(), theirs = own, all = 0;
  // Who lost may have shared the processor with another program.
  for (int run = 0; run < kRuns || (own >= theirs && run < kMostRuns && all < kMostSeconds); ++run) {
    trial.draw(generator, /*tiny=*/run == kRuns - 1);
    const double own_now = seconds_of(trial.own), theirs_now = seconds_of(trial.theirs);
    if (!trial.agrees()) return false;
    own = std::min(own, own_now);
    theirs = std::min(theirs, theirs_now);
    all += own_now + theirs_now;
  }
  return own < theirs;
}

at::Tensor random_like(const at::Tensor& like, double most, const at::Generator& generator) {
  if (!like.defined()) return {};
  return at::empty_strided(like.sizes(), like.strides(), like.options()).uniform_(-most, most, generator);
}

bool has_the_bits_of(const at::Tensor& a, const at::Tensor& b) {
  if (!a.defined() || !b.defined()) return a.defined() == b.defined();
  return std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0;
}

}  // namespace tutti
