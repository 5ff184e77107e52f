#include "tutti/files/torch_objects.h"

#include <array>
#include <optional>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/files/dtype_names.h"

namespace tutti::files {
namespace {

constexpr size_t kMaxTensorAxes = 64;
constexpr std::string_view kOrderedDict = "collections.OrderedDict", kTensor2 = "torch._utils._rebuild_tensor_v2",
                           kTensor3 = "torch._utils._rebuild_tensor_v3", kParameter = "torch._utils._rebuild_parameter",
                           kBytes = "torch.storage.UntypedStorage";

// Of these there are classes of storages. Those that came later have storages of bytes.
constexpr std::array kStored{at::kBool, at::kByte,     at::kChar,  at::kShort,  at::kInt,          at::kLong,
                             at::kHalf, at::kBFloat16, at::kFloat, at::kDouble, at::kComplexFloat, at::kComplexDouble};

// "torch.float32"
std::optional<at::ScalarType> dtype_named(std::string_view global) {
  constexpr std::string_view kModule = "torch.";
  if (!global.starts_with(kModule)) return {};
  return dtype_of_name(global.substr(kModule.size()));
}

// Of "torch.FloatStorage".
std::optional<at::ScalarType> dtype_stored_in(std::string_view global) {
  for (const at::ScalarType dtype : kStored)
    if (global == str("torch.", c10::toString(dtype), "Storage")) return dtype;
  return {};
}

std::string_view global_of(const PickledValue& value) {
  const auto* const global = std::get_if<PickledGlobal>(&value.is);
  return global ? std::string_view(global->name) : std::string_view();
}

[[noreturn]] void refuse_call(std::string_view function, const std::string& where) {
  throw Error(ErrorCode::data_loss,
              str(where, ": data.pkl calls ", function, " with arguments that torch.save() does not write"));
}

// The arguments of a call, taken one after the other.
class Arguments {
 public:
  Arguments(std::string_view function, const PickledItems& items, const std::string& where)
      : function_(function), items_(items), where_(where) {}

  bool more() const { return next_ < items_.size(); }
  const PickledValue& any() { return more() ? *items_[next_++] : fail(); }

  template <class T>
  const T& take() {
    const auto* const value = std::get_if<T>(&any().is);
    if (!value) fail();
    return *value;
  }

  std::vector<int64_t> sizes() {
    std::vector<int64_t> result;
    for (const PickledValue* item : take<PickledTuple>().items) {
      const auto* const size = std::get_if<int64_t>(&item->is);
      if (!size || *size < 0 || result.size() == kMaxTensorAxes) fail();
      result.push_back(*size);
    }
    return result;
  }

  void no_hooks() {
    if (!take<PickledDict>().items.empty())
      throw Error(ErrorCode::unimplemented,
                  str(where_, ": a tensor has hooks, which are functions of Python; save it without, as detach() is"));
  }

  const PickledValue& fail() const { refuse_call(function_, where_); }

 private:
  std::string_view function_;
  const PickledItems& items_;
  const std::string& where_;
  size_t next_ = 0;
};

// An axis of size 0 counts as 1 in the product: LibTorch computes such strides.
void check_inside(const PickledTensor& tensor, const std::string& where) {
  const auto item = static_cast<int64_t>(c10::elementSize(tensor.dtype));
  const uint64_t elements = tensor.storage->num_bytes / static_cast<uint64_t>(item);
  int64_t bytes = item, last = tensor.offset;
  bool overflow = tensor.offset < 0, empty = false;
  for (size_t axis = 0; axis < tensor.sizes.size(); ++axis) {
    const int64_t size = std::max<int64_t>(tensor.sizes[axis], 1);
    int64_t reach = 0;
    overflow |= __builtin_mul_overflow(bytes, size, &bytes);
    overflow |= __builtin_mul_overflow(size - 1, tensor.strides[axis], &reach);
    overflow |= __builtin_add_overflow(last, reach, &last);
    empty |= tensor.sizes[axis] == 0;
  }
  const uint64_t end = static_cast<uint64_t>(empty ? tensor.offset : last) + (empty ? 0 : 1);
  if (overflow || end > elements)
    throw Error(ErrorCode::data_loss,
                str(where, ": a tensor of shape ", str_list(tensor.sizes), " with strides ", str_list(tensor.strides),
                    " from element ", tensor.offset, " does not lie in its storage '", tensor.storage->key, "' of ",
                    elements, " elements"));
}

std::shared_ptr<const PickledTensor> rebuild(Arguments arguments, bool has_dtype, const std::string& where) {
  auto tensor = std::make_shared<PickledTensor>();
  tensor->storage = arguments.take<std::shared_ptr<const PickledStorage>>();
  tensor->offset = arguments.take<int64_t>();
  tensor->sizes = arguments.sizes();
  tensor->strides = arguments.sizes();
  arguments.take<bool>();  // whether it requires a gradient
  arguments.no_hooks();
  if (has_dtype) {
    const auto dtype = dtype_named(global_of(arguments.any()));
    if (!dtype) arguments.fail();
    tensor->dtype = *dtype;
  } else {
    if (!tensor->storage->dtype) arguments.fail();
    tensor->dtype = *tensor->storage->dtype;
  }
  if (arguments.more() && !arguments.take<PickledDict>().items.empty())
    throw Error(ErrorCode::unimplemented,
                str(where, ": a tensor is yet to be conjugated or negated; save tensor.resolve_conj().resolve_neg()"));
  if (arguments.more() || tensor->sizes.size() != tensor->strides.size()) arguments.fail();
  check_inside(*tensor, where);
  return tensor;
}

std::string_view way_out(const std::string& name) {
  if (name.find("sparse") != std::string::npos || name == "torch.serialization._get_layout")
    return "that is a sparse tensor; save its to_dense()";
  if (name.find("qtensor") != std::string::npos || name.starts_with("torch.Q"))
    return "that is a quantized tensor; save its dequantize()";
  if (name.starts_with("__torch__")) return "that is a program in TorchScript; torch::jit::load() reads it";
  return "files are read of tensors, numbers, text, lists, tuples and dictionaries, and no code of theirs is run; "
         "save model.state_dict(), with detach()ed tensors of no class of their own";
}

}  // namespace

void check_known_global(const std::string& name, const std::string& where) {
  for (const std::string_view known : {kOrderedDict, kTensor2, kTensor3, kParameter, kBytes})
    if (name == known) return;
  if (dtype_named(name) || dtype_stored_in(name)) return;
  throw Error(ErrorCode::unimplemented, str(where, ": the file asks for Python's ", name, ": ", way_out(name)));
}

std::shared_ptr<const PickledStorage> pickled_storage(const PickledValue& id, const std::string& where) {
  const auto* const items = std::get_if<PickledTuple>(&id.is);
  if (!items) refuse_call("a storage", where);
  Arguments arguments("a storage", items->items, where);
  if (arguments.take<std::string>() != "storage") arguments.fail();
  const std::string_view type = global_of(arguments.any());
  auto storage = std::make_shared<PickledStorage>();
  storage->dtype = dtype_stored_in(type);
  if (!storage->dtype && type != kBytes) arguments.fail();
  storage->key = arguments.take<std::string>();
  arguments.take<std::string>();  // the device
  const int64_t elements = arguments.take<int64_t>();
  int64_t bytes = 0;
  const size_t item = storage->dtype ? c10::elementSize(*storage->dtype) : 1;
  if (arguments.more() || elements < 0 || __builtin_mul_overflow(elements, static_cast<int64_t>(item), &bytes))
    arguments.fail();
  storage->num_bytes = static_cast<uint64_t>(bytes);
  return storage;
}

PickledValue call_pickled(const PickledValue& function, const PickledValue& arguments, const std::string& where) {
  const auto* const global = std::get_if<PickledGlobal>(&function.is);
  const auto* const items = std::get_if<PickledTuple>(&arguments.is);
  if (!global || !items) refuse_call(function.kind(), where);
  const std::string& name = global->name;
  Arguments given(name, items->items, where);
  if (name == kTensor2 || name == kTensor3) return {rebuild(given, name == kTensor3, where)};
  if (name == kOrderedDict && !given.more()) return {PickledDict()};
  if (name != kParameter) given.fail();
  const auto& tensor = given.take<std::shared_ptr<const PickledTensor>>();
  given.take<bool>();  // whether it requires a gradient
  given.no_hooks();
  if (given.more()) given.fail();
  return {tensor};
}

}  // namespace tutti::files
