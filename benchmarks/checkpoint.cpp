// Saving and restoring a checkpoint beside a plain sequential write with fsync, and a plain read, of as many bytes. The
// files lie in the folder that TUTTI_BENCHMARK_DIR names, else in the system's temporary one; their pages are warm.
#include <ATen/ops/rand.h>
#include <ATen/ops/zeros.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <functional>

#include "benchmarks/paired.h"
#include "tutti/checkpoint/reader.h"
#include "tutti/checkpoint/writer.h"
#include "tutti/core/str.h"
#include "tutti/device/logical_devices.h"

namespace tutti::benchmarks {
namespace {

namespace fs = std::filesystem;

struct Tensors {
  int64_t count;
  int64_t numel;  // of each, float32
};
constexpr Tensors kFewLarge{64, 1 << 22};       // 1 GiB
constexpr Tensors kManySmall{10'000, 10 << 8};  // 10 KiB each

class Files {
 public:
  Files() {
    const char* named = std::getenv("TUTTI_BENCHMARK_DIR");
    directory_ = fs::path(named ? named : fs::temp_directory_path()) / str("tutti_benchmark_", getpid());
    fs::create_directory(directory_);
  }
  ~Files() { fs::remove_all(directory_); }
  fs::path plain() const { return directory_ / "plain"; }
  fs::path checkpoint() const { return directory_ / "ckpt"; }

 private:
  fs::path directory_;
};

std::vector<Tensor> make(const Tensors& tensors, const std::function<Tensor(const Tensor&)>& place) {
  std::vector<Tensor> made;
  for (int64_t i = 0; i < tensors.count; ++i) made.push_back(place(at::rand({64, tensors.numel / 64})));
  return made;
}

std::string name_of(size_t i) { return "layer/" + std::to_string(i) + "/weight"; }

checkpoint::Contents contents_of(const std::vector<Tensor>& tensors) {
  checkpoint::Contents contents;
  for (const Tensor& tensor : tensors)
    contents.tensors.push_back(checkpoint::named_tensor(name_of(contents.tensors.size()), tensor));
  return contents;
}

constexpr size_t kStep = 1 << 20;

void plain_write(const fs::path& path, const std::vector<Tensor>& tensors) {
  fs::remove(path);
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
  std::vector<char> packed;
  const auto put = [&](const char* bytes, size_t count) {
    if (::write(file, bytes, count) != static_cast<ssize_t>(count)) std::abort();
  };
  for (const Tensor& tensor : tensors) {
    const auto* bytes = static_cast<const char*>(tensor.const_data_ptr());
    for (size_t at = 0; at < tensor.nbytes(); at += kStep) {
      const size_t count = std::min(kStep, tensor.nbytes() - at);
      if (count == kStep) {
        put(bytes + at, count);
        continue;
      }
      packed.insert(packed.end(), bytes + at, bytes + at + count);
      if (packed.size() < kStep) continue;
      put(packed.data(), packed.size());
      packed.clear();
    }
  }
  put(packed.data(), packed.size());
  if (::fsync(file) != 0) std::abort();
  ::close(file);
}

// To the same memory that a restore fills.
void plain_read(const fs::path& path, void* to, size_t bytes) {
  const int file = ::open(path.c_str(), O_RDONLY);
  for (size_t at = 0; at < bytes;) {
    const ssize_t got = ::read(file, static_cast<char*>(to) + at, std::min(kStep, bytes - at));
    if (got <= 0) std::abort();
    at += static_cast<size_t>(got);
  }
  ::close(file);
}

Tensor plain(const Tensor& tensor) { return tensor; }

std::function<Tensor(const Tensor&)> sharded(int devices, int axis) {
  const Mesh mesh({{"x", devices}}, configure_logical_cpus(devices), {.merge = false});
  std::vector<std::string> axes(2, kUnsharded);
  axes[static_cast<size_t>(axis)] = "x";
  return [layout = Layout(axes, mesh)](const Tensor& tensor) { return distribute_tensor(tensor, layout); };
}

void save(benchmark::State& state, const Tensors& tensors) {
  const Files files;
  const std::vector<Tensor> made = make(tensors, plain);
  compare(
      state, 1, [&] { plain_write(files.plain(), made); },
      [&] {
        fs::remove_all(files.checkpoint());
        checkpoint::write(checkpoint::posix_file_system(), files.checkpoint(), contents_of(made));
      });
}

void restore(benchmark::State& state, const Tensors& tensors, const std::function<Tensor(const Tensor&)>& from,
             const std::function<Tensor(const Tensor&)>& to) {
  const Files files;
  const size_t bytes = static_cast<size_t>(tensors.count * tensors.numel) * sizeof(float);
  const Tensor memory = at::zeros({static_cast<int64_t>(bytes)}, at::kByte);
  {
    const std::vector<Tensor> made = make(tensors, from);
    checkpoint::write(checkpoint::posix_file_system(), files.checkpoint(), contents_of(made));
    plain_write(files.plain(), {memory});
  }
  const std::vector<Tensor> destinations = make(tensors, to);
  compare(
      state, 1, [&] { plain_read(files.plain(), memory.data_ptr(), bytes); },
      [&] {
        const checkpoint::Reader reader(checkpoint::posix_file_system(), files.checkpoint());
        std::vector<checkpoint::Reader::Request> requests;
        for (size_t i = 0; i < destinations.size(); ++i) requests.push_back({reader.find(name_of(i)), destinations[i]});
        reader.read(requests);
      });
}

void register_all() {
  const auto add = [](const char* name, auto function, auto... arguments) {
    benchmark::RegisterBenchmark(name, function, arguments...)
        ->UseManualTime()
        ->Unit(benchmark::kMillisecond)
        ->Iterations(5);
  };
  add("save/1GiB_in_64", save, kFewLarge);
  add("save/10000_small", save, kManySmall);
  add("restore/1GiB_in_64", restore, kFewLarge, plain, plain);
  add("restore/10000_small", restore, kManySmall, plain, plain);
  add("restore/1GiB_of_4_row_shards_to_2_column_shards", restore, kFewLarge, sharded(4, 0), sharded(2, 1));
  add("restore/10000_of_4_row_shards_to_2_column_shards", restore, kManySmall, sharded(4, 0), sharded(2, 1));
}

}  // namespace
}  // namespace tutti::benchmarks

int main(int argc, char** argv) {
  tutti::benchmarks::register_all();
  tutti::benchmarks::run(argc, argv);
}
