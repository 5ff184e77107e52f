#include "tests/support/simulated_devices.h"

#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <utility>

namespace tutti {
namespace {

constexpr int kPooledStreams = 3;             // of a device: its default stream, and those of the pool
constexpr int kStreams = kPooledStreams + 2;  // and those of a program
constexpr c10::DeviceType kType = c10::DeviceType::PrivateUse1;

thread_local int current_device = 0;
thread_local std::array<c10::StreamId, kSimulatedDevices> current_streams = {};

// Its thread ends with the process.
class Stream : public SimulatedStream {
 public:
  explicit Stream(int device)
      : SimulatedStream{.device = device, .enqueue = [](SimulatedStream* stream, void (*work)(void*), void* argument) {
                          static_cast<Stream*>(stream)->add([=] { work(argument); });
                        }} {
    std::thread([this] { serve(); }).detach();
  }

  void add(std::function<void()> work) {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(work));
    ++num_added_;
    changed_.notify_all();
  }
  bool is_idle() {
    const std::lock_guard lock(mutex_);
    return num_done_ == num_added_;
  }
  // Throws what failed, once.
  void wait_until_idle() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return num_done_ == num_added_; });
    if (failed_) std::rethrow_exception(std::exchange(failed_, nullptr));
  }

 private:
  void serve() {
    std::mt19937 random(static_cast<unsigned>(device));
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return !waiting_.empty(); });
      const auto work = std::move(waiting_.front());
      waiting_.pop_front();
      lock.unlock();
      if (random() % 8 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 200));
      std::exception_ptr failed;
      try {
        work();
      } catch (...) {
        failed = std::current_exception();
      }
      lock.lock();
      if (failed) failed_ = failed;
      ++num_done_;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> waiting_;
  uint64_t num_added_ = 0, num_done_ = 0;
  std::exception_ptr failed_;
};

// Null: nothing was ever put on it.
std::atomic<Stream*>& place_of(c10::Stream stream) {
  static auto& streams = *new std::array<std::array<std::atomic<Stream*>, kStreams>, kSimulatedDevices>();
  return streams.at(static_cast<size_t>(stream.device_index())).at(static_cast<size_t>(stream.id()));
}

Stream& stream_of(c10::Stream stream) {
  static auto& mutex = *new std::mutex;
  std::atomic<Stream*>& place = place_of(stream);
  if (!place) {
    const std::lock_guard lock(mutex);
    if (!place) place = new Stream(stream.device_index());
  }
  return *place;
}

// How often it was recorded, and up to which time the stream has come.
struct Event {
  std::atomic<uint64_t> num_recorded = 0, num_reached = 0;
};
using SharedEvent = std::shared_ptr<Event>;

class SimulatedGuard final : public c10::impl::DeviceGuardImplInterface {
 public:
  c10::DeviceType type() const override { return kType; }
  c10::Device exchangeDevice(c10::Device device) const override {
    const c10::Device last = getDevice();
    setDevice(device);
    return last;
  }
  c10::Device getDevice() const override { return {kType, static_cast<c10::DeviceIndex>(current_device)}; }
  void setDevice(c10::Device device) const override { current_device = device.index(); }
  void uncheckedSetDevice(c10::Device device) const noexcept override { current_device = device.index(); }
  c10::DeviceIndex deviceCount() const noexcept override { return kSimulatedDevices; }

  c10::Stream getStream(c10::Device device) const override {
    return stream(device, current_streams.at(static_cast<size_t>(device.index())));
  }
  c10::Stream getDefaultStream(c10::Device device) const override { return stream(device, 0); }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool is_high_priority) const override {
    return stream(device, is_high_priority ? 1 : 2);
  }
  c10::Stream exchangeStream(c10::Stream next) const override {
    const c10::Stream last = getStream(next.device());
    current_streams.at(static_cast<size_t>(next.device_index())) = next.id();
    return last;
  }
  void* getStreamNativeHandle(const c10::Stream stream) const override {
    return static_cast<SimulatedStream*>(&stream_of(stream));
  }
  bool queryStream(const c10::Stream& stream) const override { return stream_of(stream).is_idle(); }
  void synchronizeStream(const c10::Stream& stream) const override { stream_of(stream).wait_until_idle(); }

  void record(void** event, const c10::Stream& stream, c10::DeviceIndex, c10::EventFlag) const override {
    if (!*event) *event = new SharedEvent(std::make_shared<Event>());
    const SharedEvent shared = of(*event);
    const uint64_t number = ++shared->num_recorded;
    stream_of(stream).add([=] {
      shared->num_reached = number;
      shared->num_reached.notify_all();
    });
  }
  void block(void* event, const c10::Stream& stream) const override {
    const SharedEvent shared = of(event);
    const uint64_t number = shared->num_recorded;
    stream_of(stream).add([=] {
      for (uint64_t reached = 0; (reached = shared->num_reached) < number;) shared->num_reached.wait(reached);
    });
  }
  bool queryEvent(void* event) const override { return !event || of(event)->num_reached == of(event)->num_recorded; }
  void destroyEvent(void* event, c10::DeviceIndex) const noexcept override { delete static_cast<SharedEvent*>(event); }

 private:
  static c10::Stream stream(c10::Device device, c10::StreamId id) {
    return c10::Stream(c10::Stream::UNSAFE, device, id);
  }
  static const SharedEvent& of(void* event) { return *static_cast<SharedEvent*>(event); }
};

}  // namespace

c10::Device simulated_device(int index) {
  static const c10::impl::DeviceGuardImplRegistrar registrar(kType, new SimulatedGuard);
  return {kType, static_cast<c10::DeviceIndex>(index)};
}

int current_simulated_device() { return current_device; }

c10::Stream current_simulated_stream(int device) {
  return c10::Stream(c10::Stream::UNSAFE, simulated_device(device), current_streams.at(static_cast<size_t>(device)));
}

c10::Stream simulated_stream_of_program(int device, int index) {
  return c10::Stream(c10::Stream::UNSAFE, simulated_device(device), kPooledStreams + index);
}

void wait_for_current_stream(int device) {
  if (Stream* const stream = place_of(current_simulated_stream(device))) stream->wait_until_idle();
}

void give_stream(c10::Stream stream, std::function<void()> work) { stream_of(stream).add(std::move(work)); }

void when_done(std::vector<c10::Stream> streams, std::function<void()> work) {
  while (!streams.empty()) {
    Stream* const stream = place_of(streams.back());
    streams.pop_back();
    if (!stream || stream->is_idle()) continue;
    return stream->add([rest = std::move(streams), work = std::move(work)] { when_done(rest, work); });
  }
  work();
}

}  // namespace tutti
