// Linked into every test binary: each test starts with the same random numbers, so that one that fails, fails again.
// Of the host: a process that has asked LibTorch for a GPU cannot fork any that use one.
#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>

#include <mutex>

namespace {

void seed() {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::scoped_lock lock(generator.mutex());
  generator.set_current_seed(0);
}

class SameRandomNumbers : public testing::EmptyTestEventListener {
  void OnTestStart(const testing::TestInfo&) override { seed(); }
};

[[maybe_unused]] const bool kIsListening = [] {
  testing::UnitTest::GetInstance()->listeners().Append(new SameRandomNumbers);  // which owns it
  return true;
}();

}  // namespace
