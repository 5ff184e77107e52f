#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "tutti/core/error.h"
#include "tutti/core/function_ref.h"
#include "tutti/pjrt/abi.h"
#include "tutti/pjrt/named_values.h"

namespace tutti::pjrt {

// A shared library that runs StableHLO on some kind of device. It is loaded once and stays for the life of the process,
// as plugins keep threads and tables of their own. Threads: any number may call.
class Plugin {
 public:
  // Throws: not_found where there is no such file; invalid_argument for a library that is no plugin;
  // failed_precondition for one of a version before 0.60 or without the entries that every call needs; what it fails
  // with when it starts. A failed attempt leaves nothing behind and may be repeated.
  //
  // libtpu waits minutes for the cloud's metadata server wherever it is loaded, and starts in one process of a host at
  // a time. Where the PCI bus shows no TPU, neither has a use: this sets TPU_SKIP_MDS_QUERY and
  // ALLOW_MULTIPLE_LIBTPU_LOAD in the environment, unless they are set.
  static const Plugin& load(const std::filesystem::path& path);

  Plugin(const Plugin&) = delete;
  Plugin& operator=(const Plugin&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::string version() const;  // of the interface: "0.90"
  const NamedValues& attributes() const { return attributes_; }

  template <class Args>
  bool has() const {
    return entry(Args::kSlot) != nullptr;
  }
  // Calls an entry. Throws: unimplemented where the plugin has none; the plugin's error with its own code, behind the
  // entry's name and the plugin's path.
  template <class Args>
  void call(Args& args) const {
    check(reinterpret_cast<abi::Error* (*)(Args*)>(required(Args::kSlot, Args::kName))(&args), Args::kName);
  }
  // For destructors: a failure becomes a warning.
  template <class Args, class Handle>
  void destroy(Handle* handle) const noexcept {
    Args args{Args::size(), nullptr, handle};
    if (handle) try_call([&] { call(args); });
  }
  // Takes an error over, which may be null.
  std::optional<Error> take(abi::Error* error, const char* what) const;

 private:
  explicit Plugin(std::filesystem::path path);
  void* entry(int slot) const;
  void* required(int slot, const char* name) const;
  void check(abi::Error* error, const char* what) const;
  void check_table() const;
  static void try_call(FunctionRef<void()> call) noexcept;

  std::filesystem::path path_;
  const abi::Api* api_ = nullptr;
  NamedValues attributes_;
};

}  // namespace tutti::pjrt
