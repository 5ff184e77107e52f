#include "tutti/tpu/device_memory.h"

#include "tutti/core/error.h"
#include "tutti/core/log.h"
#include "tutti/core/str.h"
#include "tutti/function/memory_watch.h"

namespace tutti::tpu {
namespace {

constexpr const char* kAway =
    "the value of this memory is on the devices of a TPUStrategy, where a compiled function uses it. Read or write the "
    "variable itself in global view, which brings it home; a plain tensor on its memory cannot know";

int64_t bytes_of(const stablehlo::Type& type) { return pjrt::bytes_of(element_type_of(type.dtype), type.dims); }

}  // namespace

pjrt::ElementType element_type_of(at::ScalarType dtype) {
  switch (dtype) {
    case at::kFloat: return pjrt::ElementType::float32;
    case at::kDouble: return pjrt::ElementType::float64;
    case at::kHalf: return pjrt::ElementType::float16;
    case at::kBFloat16: return pjrt::ElementType::bfloat16;
    case at::kBool: return pjrt::ElementType::boolean;
    case at::kChar: return pjrt::ElementType::int8;
    case at::kShort: return pjrt::ElementType::int16;
    case at::kInt: return pjrt::ElementType::int32;
    case at::kLong: return pjrt::ElementType::int64;
    case at::kByte: return pjrt::ElementType::uint8;
    case at::kUInt64: return pjrt::ElementType::uint64;
    default:
      throw Error(ErrorCode::unimplemented, str("a tensor of dtype ", at::toString(dtype), " on the devices of a ",
                                                "TPUStrategy; convert it before"));
  }
}

DeviceMemory::DeviceMemory(std::shared_ptr<pjrt::Client> client, std::vector<size_t> devices)
    : client_(std::move(client)), devices_(std::move(devices)) {}

DeviceMemory::~DeviceMemory() {
  const std::lock_guard lock(mutex_);
  while (!values_.empty()) {
    const c10::Storage storage = values_.begin()->second.storage;
    try {
      bring_home(storage, /*value_counts=*/storage.use_count() > 2);
    } catch (const std::exception& error) {
      warn(str("a variable's value is lost: ", error.what()));
      bring_home(storage, /*value_counts=*/false);
    }
  }
}

std::vector<int64_t> DeviceMemory::device_ids() const {
  std::vector<int64_t> ids;
  for (const size_t device : devices_) ids.push_back(client_->devices()[device].id);
  return ids;
}

Traffic DeviceMemory::traffic() const {
  const std::lock_guard lock(mutex_);
  return traffic_;
}

pjrt::Buffer DeviceMemory::put(const void* data, const stablehlo::Type& type, int replica) {
  traffic_.sent += bytes_of(type);
  return client_->put({data, element_type_of(type.dtype), type.dims}, devices_[static_cast<size_t>(replica)]);
}

pjrt::Event DeviceMemory::get(const pjrt::Buffer& buffer, c10::Storage to) {
  const int64_t bytes = buffer.bytes();
  traffic_.received += bytes;
  void* const data = to.mutable_data();
  return buffer.read(data, bytes, std::make_shared<c10::Storage>(std::move(to)));
}

// Of variables that are gone.
void DeviceMemory::drop_unused() {
  std::erase_if(values_, [](const auto& item) {
    const bool unused = item.second.storage.use_count() == 1;
    if (unused) note_home(item.second.storage);
    return unused;
  });
}

DeviceMemory::Value& DeviceMemory::send(const c10::Storage& storage, const stablehlo::Type& type) {
  const auto* const key = storage.unsafeGetStorageImpl();
  if (const auto found = values_.find(key); found != values_.end()) {
    if (found->second.type == type) return found->second;
    bring_home(storage, /*value_counts=*/true);
  }
  tutti::bring_home(storage);  // from the devices of another strategy
  std::vector<pjrt::Buffer> buffers;
  for (int replica = 0; replica < num_devices(); ++replica) buffers.push_back(put(storage.data(), type, replica));
  keep(storage, type, std::move(buffers));
  Value& sent = values_.at(key);
  sent.changed = false;
  return sent;
}

void DeviceMemory::keep(const c10::Storage& storage, const stablehlo::Type& type, std::vector<pjrt::Buffer> buffers) {
  drop_unused();
  forbid_access(*storage.unsafeGetStorageImpl(), kAway);
  note_away(storage, *this);
  values_.insert_or_assign(storage.unsafeGetStorageImpl(),
                           Value{.storage = storage, .type = type, .buffers = std::move(buffers), .changed = true});
}

bool DeviceMemory::has(const c10::Storage& storage) const { return values_.contains(storage.unsafeGetStorageImpl()); }

bool DeviceMemory::has_changed(const c10::Storage& storage) const {
  const auto found = values_.find(storage.unsafeGetStorageImpl());
  return found != values_.end() && found->second.changed;
}

bool DeviceMemory::bring_home(const c10::Storage& storage, bool value_counts) {
  const std::lock_guard lock(mutex_);
  const auto found = values_.find(storage.unsafeGetStorageImpl());
  if (found == values_.end()) return false;
  const Value& value = found->second;
  c10::StorageImpl& memory = *storage.unsafeGetStorageImpl();
  const bool changed = value.changed;
  if (changed && value_counts) {
    if (value.buffers[0].is_deleted())
      throw Error(ErrorCode::data_loss,
                  str("the value of a variable, ", to_string(value.type),
                      ", was on the devices when a program failed there, and is lost; restore a checkpoint"));
    open_to_access(memory);
    try {
      get(value.buffers[0], storage).wait();
    } catch (...) {
      forbid_access(memory, kAway);
      throw;
    }
  }
  open_to_access(memory);
  note_home(storage);
  values_.erase(found);
  return changed;
}

void DeviceMemory::bring_all_home() {
  const std::lock_guard lock(mutex_);
  drop_unused();
  while (!values_.empty()) bring_home(c10::Storage(values_.begin()->second.storage), /*value_counts=*/true);
}

}  // namespace tutti::tpu
