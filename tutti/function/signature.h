#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <typeindex>
#include <vector>

#include "tutti/function/flat_arguments.h"
#include "tutti/function/geometry.h"
#include "tutti/function/laid_out.h"

namespace tutti {

// What surrounds a call and changes what LibTorch does in it, as one number.
int64_t modes_now();

// What decides which recording a call takes: two calls with equal signatures run one program.
struct Signature {
  struct TensorPart {
    std::optional<Geometry> geometry;  // offset 0; none: an undefined tensor
    c10::Device device = c10::kCPU;
    bool requires_grad = false;
    bool is_leaf = true;
    bool operator==(const TensorPart&) const = default;
  };
  // Of the arguments, or of an element.
  struct Parts {
    static Parts of(const FlatArguments& parts, const TakenApart& tensors);

    bool operator==(const Parts&) const = default;

    std::string form;
    c10::SmallVector<TensorPart, 8> tensors;  // of a mesh tensor one for each component
    LaidOutValues layouts;
    ArgumentValues values;
  };
  // That next() takes.
  struct Taken {
    int iterator;  // its number among the arguments
    Parts parts;
    bool operator==(const Taken&) const = default;
  };

  // Of the arguments, and of what surrounds the call: gradient and inference mode, autocast, threads' determinism.
  static Signature of(std::type_index types, const FlatArguments& arguments, const TakenApart& tensors,
                      int64_t depends_on);

  bool operator==(const Signature&) const = default;
  // Whether it differs in the elements alone.
  bool is_of_call_like(const Signature& other) const;
  // "(float32 [64, 784], int64 [64], 0.1)"; "(next: float32 [64, 784], int64 [64])".
  std::string to_string() const;

  std::type_index types;
  Parts arguments;
  std::optional<std::vector<Taken>> elements;  // in their order; none: not known before the function has run
  int64_t depends_on;
  int64_t modes;
  int replica;  // in whose function the call is; -1: in none's
  const MeshShape* mesh;
};

}  // namespace tutti
