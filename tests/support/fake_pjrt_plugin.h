#pragma once

#include <string>

namespace tutti::pjrt {

// What goes wrong in the fake plugin: a shared library with two devices, whose programs give their arguments back. It
// is told through its exported function set_fault; alive() counts what it made and was not asked to destroy.
enum class Fault : int {
  none,
  null_table,
  old_version,
  other_major_version,
  short_table,  // it ends before the version
  few_entries,  // it ends behind the first entry
  failed_start,
  no_compile_entry,  // null
  failed_create,
  no_client,  // and no error either
  failed_put,
  failed_compile,
  failed_run,
  failed_event,  // runs and transfers begin, and fail later
  late_event,    // they end when set_fault is called again
  null_event,    // the plugin has none for what is done at once
  failed_destroy,
};
using SetFault = void (*)(Fault);
using Alive = int (*)();

}  // namespace tutti::pjrt
