// Linked into every test binary: each test starts with the same random numbers, so that one that fails, fails again.
#include <ATen/Context.h>
#include <gtest/gtest.h>

namespace {

class SameRandomNumbers : public testing::EmptyTestEventListener {
  void OnTestStart(const testing::TestInfo&) override { at::manual_seed(0); }
};

[[maybe_unused]] const bool kIsListening = [] {
  testing::UnitTest::GetInstance()->listeners().Append(new SameRandomNumbers);  // which owns it
  return true;
}();

}  // namespace
