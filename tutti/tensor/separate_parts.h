#pragma once

namespace tutti {

// While one lives on this thread, plans that are made join no parts of small operands: each part is worked on by a call
// of its own and the results are combined, as where devices share no memory. Plans that are there stay as they are. So
// tests meet that path with small tensors.
class SeparateParts {
 public:
  SeparateParts();
  ~SeparateParts();
  SeparateParts(const SeparateParts&) = delete;
  SeparateParts& operator=(const SeparateParts&) = delete;
};

}  // namespace tutti
