#include "tutti/pjrt/plugin.h"

#include <dlfcn.h>
#include <stdlib.h>

#include <map>
#include <memory>
#include <mutex>

#include "tutti/core/log.h"
#include "tutti/core/str.h"
#include "tutti/pjrt/tpu_hardware.h"

namespace tutti::pjrt {
namespace {

// PJRT's numbers are absl's. What has no name here is what a caller can do least about.
ErrorCode code_of(int code) {
  switch (code) {
    case 1: return ErrorCode::cancelled;
    case 3: return ErrorCode::invalid_argument;
    case 4: return ErrorCode::deadline_exceeded;
    case 5: return ErrorCode::not_found;
    case 6: return ErrorCode::already_exists;
    case 7:   // permission denied
    case 16:  // unauthenticated
    case 9: return ErrorCode::failed_precondition;
    case 8: return ErrorCode::resource_exhausted;
    case 10:  // aborted
    case 14: return ErrorCode::unavailable;
    case 11: return ErrorCode::out_of_range;
    case 12: return ErrorCode::unimplemented;
    case 15: return ErrorCode::data_loss;
    default: return ErrorCode::internal;
  }
}

const abi::Api* table_of(const std::filesystem::path& path) {
  if (!std::filesystem::exists(path) && path.has_parent_path())
    throw Error(ErrorCode::not_found, str("there is no PJRT plugin at ", path.string()));
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) throw Error(ErrorCode::invalid_argument, str("the PJRT plugin cannot be loaded: ", dlerror()));
  const auto get = reinterpret_cast<const abi::Api* (*)()>(dlsym(library, "GetPjrtApi"));
  if (!get)
    throw Error(ErrorCode::invalid_argument,
                str(path.string(), " is no PJRT plugin: it has no function GetPjrtApi; name another library"));
  const abi::Api* const api = get();
  if (!api)
    throw Error(ErrorCode::failed_precondition, str(path.string(), ": GetPjrtApi() gave no table of functions"));
  return api;
}

}  // namespace

const Plugin& Plugin::load(const std::filesystem::path& path) {
  static std::mutex mutex;
  static auto& loaded = *new std::map<std::filesystem::path, std::unique_ptr<const Plugin>>();
  std::error_code ignored;
  std::filesystem::path place = std::filesystem::canonical(path, ignored);
  if (place.empty()) place = path;
  const std::lock_guard lock(mutex);
  if (const auto found = loaded.find(place); found != loaded.end()) return *found->second;
  if (find_tpu_chips().empty())
    for (const char* const variable : {"TPU_SKIP_MDS_QUERY", "ALLOW_MULTIPLE_LIBTPU_LOAD"}) setenv(variable, "1", 0);
  std::unique_ptr<const Plugin> plugin(new Plugin(place));
  return *loaded.emplace(std::move(place), std::move(plugin)).first->second;
}

Plugin::Plugin(std::filesystem::path path) : path_(std::move(path)), api_(table_of(path_)) {
  check_table();
  abi::PluginInitialize initialize;
  call(initialize);
  if (!has<abi::PluginAttributes>()) return;
  abi::PluginAttributes attributes;
  call(attributes);
  attributes_ = from_abi({attributes.attributes, attributes.num_attributes});
}

void Plugin::check_table() const {
  const auto reaches = [&](size_t end) { return api_->struct_size >= end; };
  if (!reaches(offsetof(abi::Api, entries)))
    throw Error(ErrorCode::failed_precondition, str(path_.string(), ": its table of functions is ", api_->struct_size,
                                                    " bytes and does not tell its version"));
  if (api_->version.major_version != abi::kMajorVersion || api_->version.minor_version < abi::kOldestMinorVersion)
    throw Error(
        ErrorCode::failed_precondition,
        str(path_.string(), " speaks PJRT ", version(), ", and ", abi::kMajorVersion, ".", abi::kOldestMinorVersion,
            " or newer is required (of the same major version); install a plugin of 2025 or later"));
  for (const auto& [slot, name] : {std::pair{abi::ErrorDestroy::kSlot, abi::ErrorDestroy::kName},
                                   {abi::ErrorMessage::kSlot, abi::ErrorMessage::kName},
                                   {abi::ErrorGetCode::kSlot, abi::ErrorGetCode::kName}})
    if (!entry(slot))
      throw Error(ErrorCode::failed_precondition,
                  str(path_.string(), ": its table of functions (", api_->struct_size, " bytes) has no ", name));
}

std::string Plugin::version() const { return str(api_->version.major_version, ".", api_->version.minor_version); }

void* Plugin::entry(int slot) const {
  const size_t end = offsetof(abi::Api, entries) + static_cast<size_t>(slot + 1) * sizeof(void*);
  return api_->struct_size >= end ? api_->entries[slot] : nullptr;
}

void* Plugin::required(int slot, const char* name) const {
  if (void* const function = entry(slot)) return function;
  throw Error(ErrorCode::unimplemented, str("the PJRT plugin ", path_.string(), " (", version(), ") has no ", name));
}

std::optional<Error> Plugin::take(abi::Error* error, const char* what) const {
  if (!error) return std::nullopt;
  const auto entry_of = [&]<class Args, class Result>(Result (*)(Args*)) {
    return reinterpret_cast<Result (*)(Args*)>(entry(Args::kSlot));
  };
  abi::ErrorMessage message{.error = error};
  entry_of(static_cast<void (*)(abi::ErrorMessage*)>(nullptr))(&message);
  abi::ErrorGetCode code{.error = error};
  abi::Error* const none = entry_of(static_cast<abi::Error* (*)(abi::ErrorGetCode*)>(nullptr))(&code);
  Error taken(
      none ? ErrorCode::internal : code_of(code.code),
      str(what, " of ", path_.filename().string(), ": ",
          std::string_view(message.message ? message.message : "", message.message ? message.message_size : 0)));
  for (abi::Error* const one : {error, none}) {
    abi::ErrorDestroy destroy{.error = one};
    if (one) entry_of(static_cast<void (*)(abi::ErrorDestroy*)>(nullptr))(&destroy);
  }
  return taken;
}

void Plugin::check(abi::Error* error, const char* what) const {
  if (const auto taken = take(error, what)) throw *taken;
}

void Plugin::try_call(FunctionRef<void()> call) noexcept {
  try {
    call();
  } catch (const std::exception& error) {
    warn(str("while something of a PJRT plugin was destroyed: ", error.what()));
  }
}

}  // namespace tutti::pjrt
