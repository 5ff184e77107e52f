#include "tests/support/group_members.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <thread>

#include "tests/support/launched_members.h"
#include "tests/support/ring_members.h"
#include "tests/support/shared_array.h"
#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti {
namespace {

std::string error_in(const std::function<void(Group&)>& f, Group& group) {
  try {
    f(group);
  } catch (const Error& error) {
    return str(to_string(error.code()), ": ", error.what());
  } catch (const std::exception& error) {
    return error.what();
  }
  return {};
}

std::vector<std::string> on_threads(const Groups& groups, const std::function<void(Group&)>& f) {
  std::vector<std::string> errors(groups.size());
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < groups.size(); ++rank)
    threads.emplace_back([&, rank] { errors[rank] = error_in(f, *groups[rank]); });
  for (std::thread& thread : threads) thread.join();
  return errors;
}

std::vector<std::string> in_processes(const Groups& groups, const std::function<void(Group&)>& f) {
  using Text = std::array<char, 4096>;
  const SharedArray<Text> errors(groups.size());
  const SharedArray<std::atomic<size_t>> num_done(1);
  std::vector<pid_t> children;
  std::fflush(nullptr);
  for (size_t rank = 0; rank < groups.size(); ++rank) {
    auto* later = dynamic_cast<LaterMember*>(groups[rank].get());
    if (later) later->will_join();
    children.push_back(fork());
    if (children.back() != 0) continue;
    const std::string error = error_in(
        [&](Group& group) {
          if (later) later->join();
          f(group);
        },
        *groups[rank]);
    for (++num_done[0]; later && num_done[0] < groups.size();)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (later) later->leave();  // when all are done, as members that are threads do
    error.copy(errors[rank].data(), errors[rank].size() - 1);
    std::fflush(nullptr);
    _exit(testing::Test::HasFailure() ? 1 : 0);
  }
  std::vector<std::string> texts;
  for (size_t rank = 0; rank < groups.size(); ++rank) {
    int status = 0;
    EXPECT_EQ(waitpid(children[rank], &status, 0), children[rank]);
    EXPECT_EQ(status, 0) << "in the process of rank " << rank;
    texts.emplace_back(errors[rank].data());
  }
  return texts;
}

}  // namespace

std::vector<std::string> on_all_members(const Groups& groups, MembersAre members,
                                        const std::function<void(Group&)>& f) {
  if (members == MembersAre::launched)
    return in_launched_processes(groups, [&](Group& group) { return error_in(f, group); });
  return members == MembersAre::processes ? in_processes(groups, f) : on_threads(groups, f);
}

}  // namespace tutti
