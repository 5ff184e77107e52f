#include "tutti/tensor/view.h"

#include <c10/core/impl/LocalDispatchKeySet.h>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/tensor/call_recorder.h"
#include "tutti/tensor/remote_reads.h"

namespace tutti {
namespace {

thread_local ThreadView t_view;

void enter(const ThreadView& view) {
  t_view = view;
  const bool records = c10::impl::tls_is_dispatch_key_included(kRecordKey);
  const bool front = view.replica >= 0 || view.scope || records || RemoteReads::current();
  c10::impl::tls_set_dispatch_key_included(kFrontKey, view.scope || records);
  c10::impl::tls_set_dispatch_key_excluded(kFrontKey, !front);
  c10::impl::tls_set_dispatch_key_included(kGeneratorKey, view.generator || RemoteReads::current());
}

}  // namespace

const ThreadView& ThreadView::current() { return t_view; }

void settle_view() {
  thread_local const bool settled = (enter(t_view), true);
  static_cast<void>(settled);
}

void require_global_view(std::string_view call, std::string_view way_out) {
  if (t_view.replica >= 0)
    throw Error(ErrorCode::failed_precondition,
                str(call, ": called by replica ", t_view.replica, "; it is for global view: ", way_out));
}

ThreadViewGuard::ThreadViewGuard(ThreadView view) : previous_(t_view) { enter(view); }
ThreadViewGuard::~ThreadViewGuard() { enter(previous_); }

}  // namespace tutti
