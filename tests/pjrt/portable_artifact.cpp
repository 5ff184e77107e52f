// Serializes modules by the StableHLO in TensorFlow's wheel.
#include "tests/pjrt/portable_artifact.h"

#include <new>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "mlir/IR/BuiltinOps.h"

namespace xla {
// Of xla/pjrt/mlir_to_hlo.h, which includes headers of LLVM that the wheel does not have.
absl::StatusOr<mlir::OwningOpRef<mlir::ModuleOp>> ParseMlirModuleString(std::string_view text,
                                                                        mlir::MLIRContext& context);
absl::StatusOr<std::string> SerializeUsingVersionedStablehlo(mlir::ModuleOp module, std::string_view version,
                                                             bool in_place, bool allow_mixed_serialization);
}  // namespace xla

namespace {

absl::StatusOr<std::string> serialized(const char* text, const char* version) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  const auto module = xla::ParseMlirModuleString(text, context);
  if (!module.ok()) return module.status();
  return xla::SerializeUsingVersionedStablehlo(module->get(), version, false, false);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) void portable_artifact(const char* module, const char* version,
                                                                         void (*take)(void* user, bool failed,
                                                                                      const char* bytes, size_t size),
                                                                         void* user) {
  const auto artifact = serialized(module, version);
  const std::string_view bytes = artifact.ok() ? std::string_view(*artifact) : artifact.status().message();
  take(user, !artifact.ok(), bytes.data(), bytes.size());
}
