#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <vector>

// Graphs of simulated devices, as CUDA's: what a stream is given while it is captured is noted; a launch gives it to
// the current stream, which does it late. Memory that is allocated meanwhile is the graph's. What was noted is also
// done, as the CPU's kernels have to see numbers, and undone when the capture ends.
namespace tutti {

// Behind LibTorch's interface of graphs.
void register_simulated_graphs();

// Whether the calling thread's current stream of this device is captured.
bool is_captured(int device);
// The number of the graph whose memory it is that the thread allocates on this device now; 0: of none.
int capturing_graph(int device);
// Requires: is_captured(device). What is there now is there again when the capture ends.
void restore_after_capture(int device, void* begin, std::vector<std::byte> bytes);
void note_in_graph(int device, std::function<void()> work);
// Throws, as CUDA does, where the stream is captured: what is done needs the host.
void require_no_capture(int device);

// How often graphs were launched.
int num_simulated_launches();
// Launches begin so late from now on.
void hold_up_simulated_launches(std::chrono::milliseconds time);

}  // namespace tutti
