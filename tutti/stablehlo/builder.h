#pragma once

#include <c10/core/Scalar.h>

#include <string>
#include <utility>
#include <vector>

#include "tutti/stablehlo/type.h"

namespace tutti::stablehlo {

// How exact products of float32 are. TPUs multiply bfloat16 numbers: one product of them, three, or six.
enum class Precision { medium, high, highest };
// LibTorch's float32_matmul_precision.
Precision precision_of_libtorch();

struct Window {
  Dims sizes, strides, padding;  // padding: before and after, equal
};

// What a convolution does along its spatial axes.
struct ConvolutionWindow {
  Dims strides, low, high, input_dilation, kernel_dilation;
};

// Writes a function of StableHLO, one op a call, as text that every version since 0.9.0 reads. Operands of an op have
// the types that the op requires; no conversion or broadcast is implied, but where a comment says so.
class Builder {
 public:
  explicit Builder(Precision precision = precision_of_libtorch()) : precision_(precision) {}

  Value argument(const Type& type);
  // One number everywhere.
  Value splat(const at::Scalar& number, const Type& type);
  Value splat_like(const at::Scalar& number, const Value& like) { return splat(number, like.type); }
  // Dense numbers, the last dimension fastest.
  Value dense(const void* bytes, size_t size, const Type& type);
  Value iota(const Dims& dims, int64_t axis, at::ScalarType dtype);

  Value unary(const char* op, const Value& x);                           // "exponential"
  Value binary(const char* op, const Value& x, const Value& y);          // "add"
  Value compare(const char* direction, const Value& x, const Value& y);  // "LT"
  Value select(const Value& condition, const Value& x, const Value& y);
  Value convert(const Value& x, at::ScalarType dtype);  // x itself where it is of that dtype

  Value reshape(const Value& x, const Dims& dims);  // x itself where it is of these sizes
  Value transpose(const Value& x, const Dims& order);
  // Axis i of x is axis axes[i] of the result.
  Value broadcast_in_dim(const Value& x, const Dims& dims, const Dims& axes);
  // LibTorch's: the last axes are aligned, and sizes of 1 repeated.
  Value expand(const Value& x, const Dims& dims);
  Value slice(const Value& x, const Dims& from, const Dims& to);
  Value update_slice(const Value& x, const Value& update, const Dims& from);
  Value pad(const Value& x, const at::Scalar& with, const Dims& low, const Dims& high, const Dims& interior);
  Value concatenate(const std::vector<Value>& parts, int64_t axis);
  Value reverse(const Value& x, const Dims& axes);
  // x, of which the compiler is not to see what it was made of.
  Value opaque(const Value& x);

  // "add" or another op of two numbers; `start` is what it leaves as it is.
  Value reduce(const char* op, const Value& x, const at::Scalar& start, const Dims& axes);
  Value reduce_window(const char* op, const Value& x, const at::Scalar& start, const Window& window);
  // The gradient of a maximum over windows: `source` goes to where x is largest, the first where several are.
  Value select_and_scatter(const Value& x, const Value& source, const Window& window);
  Value dot(const Value& x, const Value& y, const Dims& batch, const Dims& contract_x, const Dims& contract_y);
  // `axes`: "[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]".
  Value convolution(const Value& x, const Value& kernel, const std::string& axes, const ConvolutionWindow& window,
                    int64_t groups, int64_t batch_groups, const Dims& result);
  // Rows of a table of [n, …], by indices of any sizes: [indices…, …].
  Value take_rows(const Value& table, const Value& indices);
  // A table with rows added at indices of [k]; rows: [k, …].
  Value add_rows(const Value& table, const Value& indices, const Value& rows);
  // Numbers written at indices of [k] of a flat array.
  Value put_elements(const Value& flat, const Value& indices, const Value& elements);

  // Random bits, all of them of `type`, ui32 or ui64. `state` is ui64 [2], a key and a counter; each 64 bits take one
  // number of the counter, and the same state gives the same bits (Threefry).
  Value random_bits(const Value& state, const Type& type);
  // Which of the replicas of the program this one is, ui32 [].
  Value replica();
  // A sum over all replicas of the program.
  Value all_reduce(const char* op, const Value& x, int replicas);

  // The module, whose function main takes the arguments in their order. `donated[i]`: the result that argument i's
  // memory becomes, or -1.
  std::string module(const std::string& name, const std::vector<Value>& results, const std::vector<int>& donated,
                     int replicas) const;

 private:
  Value emit(Type type, const std::string& text);
  std::string region(const char* op, at::ScalarType dtype);
  std::string precisions(const char* form) const;

  Precision precision_;
  int next_ = 0;
  std::vector<Value> arguments_;
  std::string body_;
};

}  // namespace tutti::stablehlo
