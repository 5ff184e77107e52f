#include "tutti/keras/process_shares.h"

#include <ATen/ops/empty.h>

#include <algorithm>

#include "tutti/core/bytes.h"
#include "tutti/tensor/across_processes.h"

namespace tutti::keras {
namespace {

// A share as tensors, the first of which says what the others are.
void write(const StepShare& share, std::vector<Tensor>& tensors) {
  ByteWriter form;
  form.number(static_cast<int64_t>(share.losses.size()));
  form.number(static_cast<int64_t>(share.metrics.size()));
  for (const metrics::Share& metric : share.metrics) form.number(static_cast<int64_t>(metric.size()));
  form.number(static_cast<int64_t>(share.named_losses.size()));
  for (const auto& [name, loss] : share.named_losses) form.text(name);
  const Tensor first = at::empty({static_cast<int64_t>(form.bytes().size())}, at::TensorOptions(at::kByte));
  std::copy(form.bytes().begin(), form.bytes().end(), first.mutable_data_ptr<uint8_t>());
  tensors.push_back(first);
  tensors.insert(tensors.end(), share.losses.begin(), share.losses.end());
  for (const metrics::Share& metric : share.metrics) tensors.insert(tensors.end(), metric.begin(), metric.end());
  for (const auto& [name, loss] : share.named_losses) tensors.push_back(loss);
}

StepShare read(std::span<const Tensor>& tensors) {
  const auto take = [&] {
    const Tensor next = tensors.front();
    tensors = tensors.subspan(1);
    return next;
  };
  const Tensor first = take();
  ByteReader form({first.const_data_ptr<uint8_t>(), static_cast<size_t>(first.numel())}, "a step of another process");
  StepShare share;
  share.losses.resize(static_cast<size_t>(form.number()));
  share.metrics.resize(static_cast<size_t>(form.number()));
  for (metrics::Share& metric : share.metrics) metric.resize(static_cast<size_t>(form.number()));
  for (int64_t left = form.number(); left > 0; --left) share.named_losses[form.text()];
  for (Tensor& loss : share.losses) loss = take();
  for (metrics::Share& metric : share.metrics)
    for (Tensor& part : metric) part = take();
  for (auto& [name, loss] : share.named_losses) loss = take();
  return share;
}

}  // namespace

std::vector<StepShare> shares_of_all_processes(Processes& processes, std::span<const StepShare> own) {
  std::vector<Tensor> tensors;
  for (const StepShare& share : own) write(share, tensors);
  std::vector<StepShare> all;
  for (const auto& received : gather_tensors(processes, tensors, "losses and metrics")) {
    std::span<const Tensor> left = received;
    while (!left.empty()) all.push_back(read(left));
  }
  return all;
}

}  // namespace tutti::keras
