#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace tutti::saved_model::pt2 {

// A condition on the sizes of inputs under which a program of torch.export is what Python did:
// "L['x'].size()[0] % 2 == 0". Python's arithmetic of integers, comparisons, and, or, not; nothing else.
class SizeGuard {
 public:
  // The number by which sizes() will be asked for the axis of an input, which is named by its keys, joined by '_'.
  // Throws what a program should where there is no such input.
  using SizeNumber = std::function<int(const std::string& input, int64_t axis)>;

  // Throws: unimplemented for what is no such condition.
  SizeGuard(std::string_view text, const SizeNumber& number, const std::string& source);

  // False too where it divides by zero or leaves int64.
  bool holds(const std::function<int64_t(int number)>& size) const;
  const std::string& text() const { return text_; }

  struct Expression;

 private:
  std::string text_;
  std::shared_ptr<const Expression> expression_;
};

}  // namespace tutti::saved_model::pt2
