#include "tutti/distribute/servers/coordinator_copies.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "tutti/core/crc32c.h"
#include "tutti/core/str.h"
#include "tutti/distribute/servers/long_message.h"
#include "tutti/tensor/mesh_tensor.h"
#include "tutti/tensor/view.h"

namespace tutti::servers {
namespace {

struct PlainAccess {
  GlobalViewGuard global_view;
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  at::NoGradGuard no_grad;
};

}  // namespace

uint32_t CoordinatorCopies::checksum(int number) const {
  const auto& buffer = mesh_impl(state_.tensor(number)).read()[0];
  return crc32c(buffer.const_data_ptr(), buffer.nbytes());
}

// Since it was brought.
bool CoordinatorCopies::was_written(int number) const {
  const auto position = static_cast<size_t>(number);
  return position < checksums_.size() && checksum(number) != checksums_[position];
}

void CoordinatorCopies::pull(bool keeps_writes) {
  if (keeps_writes) state_.settle_optimizers();
  const PlainAccess access;
  std::vector<int> brought, changed;
  for (int number = 0; number < state_.num_tensors(); ++number)
    if (state_.is_alive(number) && !(keeps_writes && was_written(number))) brought.push_back(number);
  pull_tensors(requests_, state_, known_, brought, [&](int number) {
    if (changed.empty() || std::ranges::find(changed, number) == changed.end()) changed.push_back(number);
    return static_cast<char*>(mesh_impl(state_.tensor(number)).overwrite()[0].mutable_data_ptr());
  });
  checksums_.resize(static_cast<size_t>(state_.num_tensors()));
  for (const int number : changed) {
    auto& impl = mesh_impl(state_.tensor(number));
    if (!impl.is_inference()) impl.bump_version();
    impl.finish_write();
    checksums_[static_cast<size_t>(number)] = checksum(number);
  }
  pull_numbers(keeps_writes);
}

// A server that has no variable of an update does not count it: the greatest of each number is the one that counts.
void CoordinatorCopies::pull_numbers(bool keeps_writes) {
  const size_t num_brought = numbers_.size();
  numbers_.resize(static_cast<size_t>(state_.num_optimizers()));
  for (int number = 0; number < state_.num_optimizers(); ++number) {
    if (!state_.optimizer(number).is_alive()) continue;
    const auto position = static_cast<size_t>(number);
    if (keeps_writes && position < num_brought && state_.optimizer(number).numbers() != numbers_[position]) continue;
    std::vector<double> furthest;
    requests_.ask(
        [&](int) {
          LongMessage message(Kind::read_numbers);
          message.number(number);
          return std::optional(std::move(message));
        },
        [&](int, ByteReader& reader) {
          std::vector<double> numbers(static_cast<size_t>(reader.count(sizeof(double))));
          std::memcpy(numbers.data(), reader.raw(numbers.size() * sizeof(double)), numbers.size() * sizeof(double));
          if (furthest.empty()) furthest = numbers;
          if (numbers.size() != furthest.size()) reader.damaged("two servers have not the same numbers");
          std::ranges::transform(furthest, numbers, furthest.begin(),
                                 [](double a, double b) { return std::max(a, b); });
        });
    state_.optimizer(number).set_numbers(furthest);
    numbers_[position] = std::move(furthest);
  }
}

void CoordinatorCopies::push_writes() {
  state_.settle_optimizers();
  const PlainAccess access;
  std::vector<int> written;
  for (int number = 0; number < state_.num_tensors(); ++number)
    if (state_.is_alive(number) && was_written(number)) written.push_back(number);
  const auto write = [&](int server) -> std::optional<LongMessage> {
    if (written.empty()) return {};
    LongMessage message(Kind::assign);
    message.number(static_cast<int64_t>(written.size()));
    for (const int number : written) {
      message.number(number);
      state_.append(message, number, server);
    }
    return message;
  };
  requests_.ask(write, [](int, ByteReader&) {});
  for (const int number : written) checksums_[static_cast<size_t>(number)] = checksum(number);
  push_numbers();
}

void CoordinatorCopies::push_numbers() {
  for (int number = 0; number < state_.num_optimizers(); ++number) {
    if (!state_.optimizer(number).is_alive()) continue;
    const auto numbers = state_.optimizer(number).numbers();
    auto& known = numbers_[static_cast<size_t>(number)];
    if (numbers == known) continue;
    requests_.ask(
        [&](int) {
          LongMessage message(Kind::write_numbers);
          message.number(number);
          message.number(static_cast<int64_t>(numbers.size()));
          message.raw(numbers.data(), numbers.size() * sizeof(double));
          return std::optional(std::move(message));
        },
        [](int, ByteReader&) {});
    known = numbers;
  }
}

}  // namespace tutti::servers
