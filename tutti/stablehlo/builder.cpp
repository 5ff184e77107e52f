#include "tutti/stablehlo/builder.h"

#include <ATen/Context.h>

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <sstream>

#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti::stablehlo {
namespace {

std::string name(const Value& value) { return str('%', value.number); }
std::string list(const Dims& dims) { return str_list(dims); }
std::string array(const Dims& dims) {
  const std::string numbers = str_list(dims);
  return dims.empty() ? "array<i64>" : str("array<i64: ", numbers.substr(1, numbers.size() - 2), '>');
}
std::string signature(const std::vector<Value>& operands, const Type& result) {
  std::string text = "(";
  for (size_t i = 0; i < operands.size(); ++i) text += str(i ? ", " : "", to_string(operands[i].type));
  return str(text, ") -> ", to_string(result));
}

// Infinities and NaNs are written by their bits.
std::string special(double number, at::ScalarType dtype) {
  const int kind = std::isnan(number) ? 2 : number < 0 ? 1 : 0;
  switch (dtype) {
    case at::kFloat: return std::array{"0x7F800000", "0xFF800000", "0x7FC00000"}[static_cast<size_t>(kind)];
    case at::kDouble:
      return std::array{"0x7FF0000000000000", "0xFFF0000000000000", "0x7FF8000000000000"}[static_cast<size_t>(kind)];
    case at::kHalf: return std::array{"0x7C00", "0xFC00", "0x7E00"}[static_cast<size_t>(kind)];
    default: return std::array{"0x7F80", "0xFF80", "0x7FC0"}[static_cast<size_t>(kind)];
  }
}

std::string literal(const at::Scalar& number, at::ScalarType dtype) {
  if (dtype == at::kBool) return number.to<double>() != 0 ? "true" : "false";
  if (!at::isFloatingType(dtype))
    return str(number.isFloatingPoint() ? static_cast<int64_t>(number.toDouble()) : number.to<int64_t>());
  const double value = number.to<double>();
  if (!std::isfinite(value)) return special(value, dtype);
  std::ostringstream text;
  text << std::scientific << std::setprecision(17) << value;  // with a point, which MLIR asks for
  return text.str();
}

std::string pairs(const Dims& low, const Dims& high) {
  std::string text = "[";
  for (size_t i = 0; i < low.size(); ++i) text += str(i ? ", [" : "[", low[i], ", ", high[i], ']');
  return text + ']';
}

Dims without(const Dims& dims, const Dims& axes) {
  Dims rest;
  for (size_t i = 0; i < dims.size(); ++i)
    if (std::find(axes.begin(), axes.end(), static_cast<int64_t>(i)) == axes.end()) rest.push_back(dims[i]);
  return rest;
}

}  // namespace

Precision precision_of_libtorch() {
  switch (at::globalContext().float32MatmulPrecision()) {
    case at::Float32MatmulPrecision::MEDIUM: return Precision::medium;
    case at::Float32MatmulPrecision::HIGH: return Precision::high;
    default: return Precision::highest;
  }
}

Value Builder::emit(Type type, const std::string& text) {
  Value value{next_++, std::move(type)};
  body_ += str("    ", name(value), " = ", text, '\n');
  return value;
}

Value Builder::argument(const Type& type) {
  arguments_.push_back({next_++, type});
  return arguments_.back();
}

Value Builder::splat(const at::Scalar& number, const Type& type) {
  return emit(type, str("stablehlo.constant dense<", literal(number, type.dtype), "> : ", to_string(type)));
}

Value Builder::dense(const void* bytes, size_t size, const Type& type) {
  if (numel(type.dims) == 0) return splat(0, type);
  if (type.dtype == at::kBool) {  // which MLIR packs to bits
    const Value numbers = dense(bytes, size, {at::kByte, type.dims});
    return compare("NE", numbers, splat_like(0, numbers));
  }
  std::ostringstream text;
  text << std::hex << std::uppercase << std::setfill('0');
  const auto* byte = static_cast<const unsigned char*>(bytes);
  for (size_t i = 0; i < size; ++i) text << std::setw(2) << static_cast<int>(byte[i]);
  return emit(type, str("stablehlo.constant dense<\"0x", text.str(), "\"> : ", to_string(type)));
}

Value Builder::iota(const Dims& dims, int64_t axis, at::ScalarType dtype) {
  return emit({dtype, dims}, str("stablehlo.iota dim = ", axis, " : ", to_string(Type{dtype, dims})));
}

Value Builder::unary(const char* op, const Value& x) {
  return emit(x.type, str("stablehlo.", op, ' ', name(x), " : ", to_string(x.type)));
}

Value Builder::binary(const char* op, const Value& x, const Value& y) {
  if (x.type != y.type)
    throw Error(ErrorCode::internal, str("stablehlo.", op, " of ", to_string(x.type), " and ", to_string(y.type)));
  return emit(x.type, str("stablehlo.", op, ' ', name(x), ", ", name(y), " : ", to_string(x.type)));
}

Value Builder::compare(const char* direction, const Value& x, const Value& y) {
  const Type type{at::kBool, x.dims()};
  return emit(type, str("stablehlo.compare ", direction, ", ", name(x), ", ", name(y), " : ", signature({x, y}, type)));
}

Value Builder::select(const Value& condition, const Value& x, const Value& y) {
  return emit(x.type, str("stablehlo.select ", name(condition), ", ", name(x), ", ", name(y), " : ",
                          to_string(condition.type), ", ", to_string(x.type)));
}

Value Builder::convert(const Value& x, at::ScalarType dtype) {
  if (x.dtype() == dtype) return x;
  if (dtype == at::kBool) return compare("NE", x, splat_like(0, x));
  const Type type{dtype, x.dims()};
  return emit(type, str("stablehlo.convert ", name(x), " : ", signature({x}, type)));
}

Value Builder::reshape(const Value& x, const Dims& dims) {
  if (x.dims() == dims) return x;
  const Type type{x.dtype(), dims};
  return emit(type, str("stablehlo.reshape ", name(x), " : ", signature({x}, type)));
}

Value Builder::transpose(const Value& x, const Dims& order) {
  if (std::is_sorted(order.begin(), order.end())) return x;
  Type type{x.dtype(), {}};
  for (const int64_t axis : order) type.dims.push_back(x.dims()[static_cast<size_t>(axis)]);
  return emit(type, str("stablehlo.transpose ", name(x), ", dims = ", list(order), " : ", signature({x}, type)));
}

Value Builder::broadcast_in_dim(const Value& x, const Dims& dims, const Dims& axes) {
  if (x.dims() == dims) return x;
  const Type type{x.dtype(), dims};
  return emit(type, str("stablehlo.broadcast_in_dim ", name(x), ", dims = ", list(axes), " : ", signature({x}, type)));
}

Value Builder::expand(const Value& x, const Dims& dims) {
  if (x.dims() == dims) return x;
  const size_t shift = dims.size() - x.rank();
  Dims kept, axes;
  for (size_t i = 0; i < x.rank(); ++i) {
    if (x.dims()[i] == 1 && dims[i + shift] != 1) continue;
    kept.push_back(x.dims()[i]);
    axes.push_back(static_cast<int64_t>(i + shift));
  }
  return broadcast_in_dim(reshape(x, kept), dims, axes);
}

Value Builder::slice(const Value& x, const Dims& from, const Dims& to) {
  Type type{x.dtype(), {}};
  std::string ranges;
  for (size_t i = 0; i < from.size(); ++i) {
    type.dims.push_back(to[i] - from[i]);
    ranges += str(i ? ", " : "", from[i], ':', to[i]);
  }
  if (type.dims == x.dims()) return x;
  return emit(type, str("stablehlo.slice ", name(x), " [", ranges, "] : ", signature({x}, type)));
}

Value Builder::update_slice(const Value& x, const Value& update, const Dims& from) {
  std::vector<Value> operands{x, update};
  std::string names = str(name(x), ", ", name(update));
  for (const int64_t start : from) {
    operands.push_back(splat(start, {at::kInt, {}}));
    names += ", " + name(operands.back());
  }
  return emit(x.type, str("stablehlo.dynamic_update_slice ", names, " : ", signature(operands, x.type)));
}

Value Builder::pad(const Value& x, const at::Scalar& with, const Dims& low, const Dims& high, const Dims& interior) {
  const Value number = splat(with, {x.dtype(), {}});
  Type type = x.type;
  for (size_t i = 0; i < low.size(); ++i)
    type.dims[i] += low[i] + high[i] + std::max<int64_t>(0, x.dims()[i] - 1) * interior[i];
  return emit(type, str("stablehlo.pad ", name(x), ", ", name(number), ", low = ", list(low), ", high = ", list(high),
                        ", interior = ", list(interior), " : ", signature({x, number}, type)));
}

Value Builder::concatenate(const std::vector<Value>& parts, int64_t axis) {
  if (parts.size() == 1) return parts[0];
  Type type = parts[0].type;
  std::string names = name(parts[0]);
  for (size_t i = 1; i < parts.size(); ++i) {
    type.dims[static_cast<size_t>(axis)] += parts[i].dims()[static_cast<size_t>(axis)];
    names += ", " + name(parts[i]);
  }
  return emit(type, str("stablehlo.concatenate ", names, ", dim = ", axis, " : ", signature(parts, type)));
}

Value Builder::reverse(const Value& x, const Dims& axes) {
  return emit(x.type, str("stablehlo.reverse ", name(x), ", dims = ", list(axes), " : ", to_string(x.type)));
}

Value Builder::opaque(const Value& x) {
  return emit(x.type, str("stablehlo.optimization_barrier ", name(x), " : ", to_string(x.type)));
}

// "({ … })": an op on two numbers.
std::string Builder::region(const char* op, at::ScalarType dtype) {
  const std::string type = to_string(Type{dtype, {}});
  const int x = next_++, y = next_++, result = next_++;
  return str("({\n    ^bb0(%", x, ": ", type, ", %", y, ": ", type, "):\n      %", result, " = stablehlo.", op, " %", x,
             ", %", y, " : ", type, "\n      stablehlo.return %", result, " : ", type, "\n    })");
}

Value Builder::reduce(const char* op, const Value& x, const at::Scalar& start, const Dims& axes) {
  if (axes.empty()) return x;
  const Value initial = splat(start, {x.dtype(), {}});
  const Type type{x.dtype(), without(x.dims(), axes)};
  return emit(type, str("stablehlo.reduce(", name(x), " init: ", name(initial), ") applies stablehlo.", op,
                        " across dimensions = ", list(axes), " : ", signature({x, initial}, type)));
}

Value Builder::reduce_window(const char* op, const Value& x, const at::Scalar& start, const Window& window) {
  const Value initial = splat(start, {x.dtype(), {}});
  Type type = x.type;
  for (size_t i = 0; i < x.rank(); ++i)
    type.dims[i] = (x.dims()[i] + 2 * window.padding[i] - window.sizes[i]) / window.strides[i] + 1;
  return emit(type, str("\"stablehlo.reduce_window\"(", name(x), ", ", name(initial),
                        ") <{window_dimensions = ", array(window.sizes), ", window_strides = ", array(window.strides),
                        ", padding = dense<", pairs(window.padding, window.padding), "> : tensor<", x.rank(),
                        "x2xi64>}> ", region(op, x.dtype()), " : ", signature({x, initial}, type)));
}

Value Builder::select_and_scatter(const Value& x, const Value& source, const Window& window) {
  const Value zero = splat(0, {x.dtype(), {}});
  const std::string number = to_string(Type{x.dtype(), {}});
  const int a = next_++, b = next_++, wins = next_++;
  const std::string choose = str("({\n    ^bb0(%", a, ": ", number, ", %", b, ": ", number, "):\n      %", wins,
                                 " = stablehlo.compare GE, %", a, ", %", b, " : (", number, ", ", number,
                                 ") -> tensor<i1>\n      stablehlo.return %", wins, " : tensor<i1>\n    }, ");
  const std::string add = region("add", x.dtype());
  return emit(x.type, str("\"stablehlo.select_and_scatter\"(", name(x), ", ", name(source), ", ", name(zero),
                          ") <{window_dimensions = ", array(window.sizes), ", window_strides = ", array(window.strides),
                          ", padding = dense<", pairs(window.padding, window.padding), "> : tensor<", x.rank(),
                          "x2xi64>}> ", choose, add.substr(1), " : ", signature({x, source, zero}, x.type)));
}

std::string Builder::precisions(const char* form) const {
  const char* const word = precision_ == Precision::highest ? "HIGHEST"
                           : precision_ == Precision::high  ? "HIGH"
                                                            : "DEFAULT";
  return *form ? str("#stablehlo<precision ", word, ">, #stablehlo<precision ", word, '>') : str(word, ", ", word);
}

Value Builder::dot(const Value& x, const Value& y, const Dims& batch, const Dims& contract_x, const Dims& contract_y) {
  Type type{x.dtype(), {}};
  for (const int64_t axis : batch) type.dims.push_back(x.dims()[static_cast<size_t>(axis)]);
  for (const auto& [operand, contract] : {std::pair{&x, &contract_x}, {&y, &contract_y}}) {
    Dims used = batch;
    used.insert(used.end(), contract->begin(), contract->end());
    const Dims free = without(operand->dims(), used);
    type.dims.insert(type.dims.end(), free.begin(), free.end());
  }
  const std::string batching = batch.empty() ? "" : str("batching_dims = ", list(batch), " x ", list(batch), ", ");
  return emit(type, str("stablehlo.dot_general ", name(x), ", ", name(y), ", ", batching,
                        "contracting_dims = ", list(contract_x), " x ", list(contract_y), ", precision = [",
                        precisions(""), "] : ", signature({x, y}, type)));
}

Value Builder::convolution(const Value& x, const Value& kernel, const std::string& axes,
                           const ConvolutionWindow& window, int64_t groups, int64_t batch_groups, const Dims& result) {
  const Type type{x.dtype(), result};
  return emit(type,
              str("stablehlo.convolution(", name(x), ", ", name(kernel), ") dim_numbers = ", axes,
                  ", window = {stride = ", list(window.strides), ", pad = ", pairs(window.low, window.high),
                  ", lhs_dilate = ", list(window.input_dilation), ", rhs_dilate = ", list(window.kernel_dilation),
                  "} {batch_group_count = ", batch_groups, " : i64, feature_group_count = ", groups,
                  " : i64, precision_config = [", precisions("attribute"), "]} : ", signature({x, kernel}, type)));
}

Value Builder::take_rows(const Value& table, const Value& indices) {
  Dims row(table.dims().begin() + 1, table.dims().end()), offsets, sizes = table.dims();
  for (size_t i = 0; i < row.size(); ++i) offsets.push_back(static_cast<int64_t>(indices.rank() + i));
  sizes[0] = 1;
  Type type{table.dtype(), indices.dims()};
  type.dims.insert(type.dims.end(), row.begin(), row.end());
  return emit(type, str("\"stablehlo.gather\"(", name(table), ", ", name(indices),
                        ") <{dimension_numbers = #stablehlo.gather<offset_dims = ", list(offsets),
                        ", collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = ", indices.rank(),
                        ">, slice_sizes = ", array(sizes), "}> : ", signature({table, indices}, type)));
}

Value Builder::add_rows(const Value& table, const Value& indices, const Value& rows) {
  Dims window;
  for (size_t i = 1; i < table.rank(); ++i) window.push_back(static_cast<int64_t>(i));
  return emit(table.type,
              str("\"stablehlo.scatter\"(", name(table), ", ", name(indices), ", ", name(rows),
                  ") <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = ", list(window),
                  ", inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ",
                  region("add", table.dtype()), " : ", signature({table, indices, rows}, table.type)));
}

Value Builder::put_elements(const Value& flat, const Value& indices, const Value& elements) {
  const std::string number = to_string(Type{flat.dtype(), {}});
  const int before = next_++, after = next_++;
  return emit(flat.type, str("\"stablehlo.scatter\"(", name(flat), ", ", name(indices), ", ", name(elements),
                             ") <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], "
                             "scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({\n    ^bb0(%",
                             before, ": ", number, ", %", after, ": ", number, "):\n      stablehlo.return %", after,
                             " : ", number, "\n    }) : ", signature({flat, indices, elements}, flat.type)));
}

Value Builder::random_bits(const Value& state, const Type& type) {
  const int after = next_++;
  Value drawn{next_++, type};
  body_ += str("    %", after, ", ", name(drawn), " = stablehlo.rng_bit_generator ", name(state),
               ", algorithm = THREE_FRY : (", to_string(state.type), ") -> (", to_string(state.type), ", ",
               to_string(type), ")\n");
  return drawn;
}

Value Builder::replica() { return emit({at::kUInt32, {}}, "stablehlo.replica_id : tensor<ui32>"); }

Value Builder::all_reduce(const char* op, const Value& x, int replicas) {
  std::string group;
  for (int replica = 0; replica < replicas; ++replica) group += str(replica ? ", " : "", replica);
  return emit(x.type,
              str("\"stablehlo.all_reduce\"(", name(x), ") <{replica_groups = dense<[[", group, "]]> : tensor<1x",
                  replicas, "xi64>}> ", region(op, x.dtype()), " : ", signature({x}, x.type)));
}

std::string Builder::module(const std::string& module_name, const std::vector<Value>& results,
                            const std::vector<int>& donated, int replicas) const {
  std::string arguments, values, types;
  for (size_t i = 0; i < arguments_.size(); ++i) {
    arguments += str(i ? ", " : "", name(arguments_[i]), ": ", to_string(arguments_[i].type));
    if (i < donated.size() && donated[i] >= 0) arguments += str(" {tf.aliasing_output = ", donated[i], " : i32}");
  }
  for (size_t i = 0; i < results.size(); ++i) {
    values += str(i ? ", " : "", name(results[i]));
    types += str(i ? ", " : "", to_string(results[i].type));
  }
  return str("module @", module_name, " attributes {mhlo.num_replicas = ", replicas,
             " : i32, mhlo.num_partitions = 1 : i32} {\n  func.func public @main(", arguments, ") -> (", types, ") {\n",
             body_, "    return ", values, results.empty() ? "" : " : ", types, "\n  }\n}\n");
}

}  // namespace tutti::stablehlo
