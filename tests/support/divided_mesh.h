#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/test_devices.h"
#include "tutti/collectives/local/local_group.h"
#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/tensor/mesh_members.h"

namespace tutti {

// A mesh whose devices are divided among threads that stand for processes.
struct DividedMesh {
  std::vector<MeshDimension> dimensions;
  std::string divided;  // the dimension
  int processes = 2;
  bool merge = false;
  std::string name = {};  // of meshes on which plans are made in another way

  // The whole mesh, in this process alone; that of a process.
  Mesh whole() const { return named(name + "the whole"); }
  Mesh of(int rank) const { return named(str(name, "process ", rank, " of ", processes, " along ", divided)); }

 private:
  Mesh named(const std::string& full_name) const {
    int64_t devices = 1;
    for (const MeshDimension& dimension : dimensions) devices *= dimension.size;
    return Mesh(dimensions, test_devices(static_cast<int>(devices)), {.merge = merge, .name = full_name});
  }
};

// Calls f(mesh, rank) on a thread for each process, the first on the caller's. Returns what each threw, "" for nothing;
// the others then throw too where they wait for it.
inline std::vector<std::string> on_each_process(const DividedMesh& mesh,
                                                const std::function<void(const Mesh&, int rank)>& f) {
  std::vector<std::shared_ptr<Group>> groups;
  for (auto& group : local_groups(mesh.processes, {.timeout = std::chrono::seconds(100)}))
    groups.push_back(std::move(group));
  std::vector<std::string> failures(groups.size());
  const auto work = [&](int rank) {
    const auto position = static_cast<size_t>(rank);
    try {
      const Mesh own = mesh.of(rank);
      divide_mesh(own, mesh.divided, groups[position]);
      f(own, rank);
    } catch (const Error& error) {
      failures[position] = str(to_string(error.code()), ": ", error.what());
    } catch (const std::exception& error) {
      failures[position] = error.what();
    }
    if (!failures[position].empty()) groups[position]->abort(failures[position]);
  };
  std::vector<std::thread> threads;
  for (int rank = 1; rank < mesh.processes; ++rank) threads.emplace_back(work, rank);
  work(0);
  for (std::thread& thread : threads) thread.join();
  return failures;
}

// The failure that is the cause of the others; "" where there is none.
inline std::string first_failure(const std::vector<std::string>& failures) {
  std::string found;
  for (const std::string& failure : failures)
    if (!failure.empty() && (found.empty() || found.starts_with("cancelled"))) found = failure;
  return found;
}

}  // namespace tutti
