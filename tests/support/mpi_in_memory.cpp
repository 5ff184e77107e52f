#include "tests/support/mpi_in_memory.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <random>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/support/ring_members.h"
#include "tutti/collectives/mpi/mpi_carrier.h"

namespace tutti {
namespace {

constexpr size_t kEager = 4000;

struct Post {
  MpiRequest request = 0;
  const void* from = nullptr;
  void* to = nullptr;
  size_t size = 0;  // of a receive: its room
  std::vector<std::byte> copy = {};
};

// What travels from one rank to another with one tag: sends and receives that have not met.
struct Channel {
  std::deque<Post> sends = {}, receives = {};
};

class Sea {
 public:
  MpiRequest send(int from, int to, int tag, const void* bytes, size_t size) {
    const std::lock_guard lock(mutex_);
    Post post{.request = ++last_, .from = bytes, .size = size};
    if (size <= kEager) {
      const auto* begin = static_cast<const std::byte*>(bytes);
      post.copy.assign(begin, begin + size);
      done_[post.request] = size;
    }
    Channel& channel = channels_[{from, to, tag}];
    channel.sends.push_back(std::move(post));
    match(channel);
    return last_;
  }
  MpiRequest receive(int from, int to, int tag, void* bytes, size_t room) {
    const std::lock_guard lock(mutex_);
    Channel& channel = channels_[{from, to, tag}];
    channel.receives.push_back({.request = ++last_, .to = bytes, .size = room});
    match(channel);
    return last_;
  }
  const char* test(MpiRequest& request, bool& is_done, size_t* size) {
    const std::lock_guard lock(mutex_);
    is_done = false;
    if (too_long_.erase(request) > 0) return "a message is longer than its room";
    const auto found = done_.find(request);
    if (found == done_.end() || random_() % 4 == 0) return nullptr;
    if (size) *size = found->second;
    done_.erase(found);
    request = 0;
    is_done = true;
    return nullptr;
  }
  bool cancel(MpiRequest& request) {
    const std::lock_guard lock(mutex_);
    for (auto& [place, channel] : channels_)
      std::erase_if(channel.receives, [&](const Post& post) { return post.request == request; });
    done_.erase(std::exchange(request, 0));
    return true;
  }

 private:
  void match(Channel& channel) {
    while (!channel.sends.empty() && !channel.receives.empty()) {
      const Post send = std::move(channel.sends.front()), receive = std::move(channel.receives.front());
      channel.sends.pop_front();
      channel.receives.pop_front();
      if (send.size > receive.size) {
        too_long_[receive.request] = true;
        continue;
      }
      if (send.size > 0) std::memcpy(receive.to, send.copy.empty() ? send.from : send.copy.data(), send.size);
      done_[receive.request] = send.size;
      if (send.copy.empty()) done_[send.request] = send.size;
    }
  }

  std::mutex mutex_;
  std::mt19937 random_{1};
  MpiRequest last_ = 0;
  std::map<std::tuple<int, int, int>, Channel> channels_;
  std::map<MpiRequest, size_t> done_;
  std::map<MpiRequest, bool> too_long_;
};

Sea& sea() {
  static Sea sea;
  return sea;
}

template <int kRank>
MpiModule module_of() {
  return {.abi = kMpiModuleAbi,
          .built_with = "threads",
          .send = [](int rank, int tag, const void* bytes, size_t size, MpiRequest* request) -> const char* {
            *request = sea().send(kRank, rank, tag, bytes, size);
            return nullptr;
          },
          .receive = [](int rank, int tag, void* bytes, size_t room, MpiRequest* request) -> const char* {
            *request = sea().receive(rank, kRank, tag, bytes, room);
            return nullptr;
          },
          .test = [](MpiRequest* request, bool* is_done, size_t* size) { return sea().test(*request, *is_done, size); },
          .cancel = [](MpiRequest* request) { return sea().cancel(*request); },
          .give_up = [] {}};
}

template <int... kRanks>
std::array<MpiModule, sizeof...(kRanks)> modules_of(std::integer_sequence<int, kRanks...>) {
  return {module_of<kRanks>()...};
}

std::atomic<int> num_groups = 0;

}  // namespace

int last_tag_of_threads() { return 2 * num_groups; }

const MpiModule& mpi_in_memory(int rank) {
  static const auto modules = modules_of(std::make_integer_sequence<int, kMaxRanksInMemory>());
  return modules.at(static_cast<size_t>(rank));
}

// Ranks in MPI need not be those of the group: here they go the other way round.
Groups mpi_of_threads(int size, std::chrono::milliseconds timeout) {
  const int tag = 2 * ++num_groups;
  std::vector<int> places;
  for (int rank = 0; rank < size; ++rank) places.push_back(size - 1 - rank);
  return ring_of_threads(size, timeout, [&](int rank) {
    return mpi_carrier(mpi_in_memory(places[static_cast<size_t>(rank)]), rank, places, tag);
  });
}

}  // namespace tutti
