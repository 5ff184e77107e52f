#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <c10/core/Storage.h>

#include <vector>

namespace tutti {

using Tensor = at::Tensor;

// What a part of a function changes that runs to be recorded alone: it is told before each change, and puts back the
// bits that were there.
class UndoLog {
 public:
  // What is drawn from LibTorch's default generators from now on is undone too.
  UndoLog();

  // Memory, geometry and version. Requires: a plain dense tensor.
  void before_write(const Tensor& tensor);
  void before_write(const c10::VariableVersion& version);
  void before_draw(const at::Generator& generator);

  void undo();

 private:
  struct Memory {
    c10::Storage storage;
    Tensor bytes;  // a copy
  };
  struct Shape {
    Tensor tensor;
    at::DimVector sizes, strides;
    int64_t offset;
  };
  struct Version {
    c10::VariableVersion version;
    int64_t value;
  };
  struct Generator {
    at::Generator generator;
    Tensor state;
  };

  std::vector<Memory> memory_;
  std::vector<Shape> shapes_;
  std::vector<Version> versions_;
  std::vector<Generator> generators_;
};

}  // namespace tutti
