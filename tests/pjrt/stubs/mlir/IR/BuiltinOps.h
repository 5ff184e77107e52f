#pragma once

// In place of MLIR's headers, which TensorFlow's wheel ships without those of LLVM that they include: what they
// declare, as far as it is used here, laid out as there.
namespace mlir {

class Operation {
 public:
  void erase();
};

struct ModuleOp {
  Operation* operation = nullptr;
};

class MLIRContext {
 public:
  enum class Threading { DISABLED, ENABLED };
  explicit MLIRContext(Threading threading = Threading::ENABLED);
  ~MLIRContext();
  MLIRContext(const MLIRContext&) = delete;
  MLIRContext& operator=(const MLIRContext&) = delete;

 private:
  void* implementation_[8] = {};  // the first of them
};

template <class Op>
class OwningOpRef {
 public:
  OwningOpRef(OwningOpRef&& other) noexcept : op_(other.op_) { other.op_ = {}; }
  ~OwningOpRef() {
    if (op_.operation) op_.operation->erase();
  }
  Op get() const { return op_; }

 private:
  Op op_;
};

}  // namespace mlir
