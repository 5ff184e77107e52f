#pragma once

#include "tutti/function/memory_watch.h"
#include "tutti/function/recorder.h"

namespace tutti {

// The memory of a call's operands, open to the call.
class Recorder::Readable {
 public:
  Readable(Recorder& recorder, const Program::Call& call) : recorder_(recorder), call_(call) {
    for_each([&](int buffer) { open_to_access(*recorder_.state(buffer).storage.unsafeGetStorageImpl()); });
  }
  ~Readable() {
    if (!recorder_.is_over()) for_each([&](int buffer) { recorder_.close(buffer); });
  }
  Readable(const Readable&) = delete;
  Readable& operator=(const Readable&) = delete;

 private:
  template <class Visit>
  void for_each(Visit visit) {
    for (const auto* buffers : {&call_.reads, &call_.writes})
      for (const int buffer : *buffers) visit(buffer);
  }

  Recorder& recorder_;
  const Program::Call& call_;
};

}  // namespace tutti
