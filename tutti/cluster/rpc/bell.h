#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>

namespace tutti::rpc {

// What a thread sleeps on while another one writes memory that both have, which may be another process's.
struct Bell {
  alignas(64) std::atomic<uint32_t> count = 0;
  std::atomic<uint32_t> is_sleeping = 0;  // threads, for messages
};

// What a thread that sleeps on a bell may be woken for.
constexpr uint32_t kMessages = 1, kRoom = 2, kAnything = ~uint32_t{0};

// Whoever wrote, rings. No ring is lost: who sleeps has read the count before it looked, and the kernel compares it.
void ring(Bell& bell, uint32_t reason);

// Returns once the count is not `seen`, at the deadline, and now and then: the other process may write anything there.
void wait_past(Bell& bell, uint32_t seen, uint32_t reasons, std::chrono::steady_clock::time_point deadline);

// A bell, and its count before one looked for what it rings for.
struct SeenBell {
  Bell* bell;
  uint32_t seen;
};
constexpr size_t kMostBells = 128;
// Whether the kernel can wait for several: Linux can since 5.16.
bool can_wait_for_several();
// As wait_past, of bells that ring for messages: at most kMostBells, or one where the kernel waits for no more.
void wait_past_any(std::span<const SeenBell> bells, std::chrono::steady_clock::time_point deadline);

}  // namespace tutti::rpc
