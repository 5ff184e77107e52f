#pragma once

namespace tutti {

// What the native handle of a simulated device's stream points to, for libraries that are given it.
struct SimulatedStream {
  int device;
  void (*enqueue)(SimulatedStream* stream, void (*work)(void*), void* argument);
};

}  // namespace tutti
