#include "tutti/pjrt/event.h"

#include <condition_variable>
#include <mutex>

#include "tutti/core/str.h"

namespace tutti::pjrt {

// Lives until nobody asks any more and the plugin has called back.
struct Event::State {
  State(const Plugin& p, abi::Event* e, std::string w, std::shared_ptr<const void> h)
      : plugin(p), event(e), what(std::move(w)), held(std::move(h)) {}
  ~State() { plugin.destroy<abi::EventDestroy>(event); }

  const Plugin& plugin;
  abi::Event* const event;
  const std::string what;
  std::mutex mutex;  // of what follows
  std::condition_variable happened;
  bool done = false;
  std::optional<Error> error;
  std::shared_ptr<const void> held;
};

Event::Event(const Plugin& plugin, abi::Event* event, std::string what, std::shared_ptr<const void> held) {
  if (!event) return;
  state_ = std::make_shared<State>(plugin, event, std::move(what), std::move(held));
  auto callers = std::make_unique<std::shared_ptr<State>>(state_);
  abi::EventOnReady args{.event = event, .callback = on_ready, .user_arg = callers.get()};
  plugin.call(args);
  callers.release();
}

// Runs on a thread of the plugin's.
void Event::on_ready(abi::Error* error, void* user_arg) {
  const std::unique_ptr<std::shared_ptr<State>> callers(static_cast<std::shared_ptr<State>*>(user_arg));
  State& state = **callers;
  std::optional<Error> taken = state.plugin.take(error, state.what.c_str());
  std::shared_ptr<const void> held;
  {
    const std::lock_guard lock(state.mutex);
    state.done = true;
    state.error = std::move(taken);
    held.swap(state.held);
  }
  state.happened.notify_all();
}

bool Event::is_ready() const {
  if (!state_) return true;
  const std::lock_guard lock(state_->mutex);
  return state_->done;
}

void Event::wait(std::chrono::milliseconds timeout) const {
  if (!state_) return;
  std::unique_lock lock(state_->mutex);
  if (!state_->happened.wait_for(lock, timeout, [&] { return state_->done; }))
    throw Error(ErrorCode::deadline_exceeded,
                str(state_->what, " has not ended after ", timeout.count(), " ms (", state_->plugin.path().string(),
                    "): the device may hang or another participant may be missing; a longer deadline can be given"));
  if (state_->error) throw *state_->error;
}

}  // namespace tutti::pjrt
