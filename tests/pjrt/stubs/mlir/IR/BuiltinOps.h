#pragma once

// In place of MLIR's header, which TensorFlow's wheel ships without those of LLVM that it includes. XLA's client takes
// a module by value, which is one pointer; nothing here makes one.
namespace mlir {

struct ModuleOp {
  void* operation = nullptr;
};
class MLIRContext;
template <class Op>
class OwningOpRef;

}  // namespace mlir
