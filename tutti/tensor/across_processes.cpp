#include "tutti/tensor/across_processes.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/CPUAllocator.h>
#include <c10/util/strides.h>

#include <algorithm>
#include <mutex>
#include <numeric>
#include <utility>

#include "tutti/collectives/packing.h"
#include "tutti/core/bytes.h"
#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/device/gpu.h"
#include "tutti/tensor/call_recorder.h"
#include "tutti/tensor/dtype_of.h"
#include "tutti/tensor/of_meshes.h"
#include "tutti/tensor/packed.h"
#include "tutti/tensor/sparse_tensor.h"
#include "tutti/tensor/spec.h"
#include "tutti/tensor/tensor_bytes.h"

namespace tutti {
namespace {

OfMeshes<Processes>& processes_of_meshes() {
  static auto& all = *new OfMeshes<Processes>;  // tensors may be read while static objects end
  return all;
}

Dtype required_dtype(const char* name, const Tensor& value) {
  if (const auto dtype = dtype_of(value.scalar_type())) return *dtype;
  throw Error(ErrorCode::unimplemented,
              str(name, ": ", value.toString(), " cannot be summed over processes; convert it first"));
}

// Where the sum of a value and those of other processes is taken.
c10::Device place_of_sum(const Processes& processes, const Tensor& value) {
  if (!is_gpu(value.device()) || !processes.device()) return at::kCPU;
  return gpu_device(*processes.device());
}

// Smaller packs are copied to travel: one meeting of the processes costs more than that.
constexpr int64_t kSmallestShared = 4 << 10;

// In memory that the processes share, where they have such: then only its sum moves.
Tensor new_pack(Processes& processes, int64_t bytes, at::ScalarType dtype, c10::Device device) {
  const int64_t count = bytes / static_cast<int64_t>(c10::elementSize(dtype));
  const auto options = at::TensorOptions(device).dtype(dtype);
  using Memory = std::shared_ptr<std::byte>;
  const bool may_share = device.is_cpu() && bytes >= kSmallestShared;
  Memory memory = may_share ? processes.allocate_shared(static_cast<size_t>(bytes)) : nullptr;
  if (!memory) return at::empty({count}, options);
  void* const data = memory.get();
  c10::DataPtr owner(
      data, new Memory(std::move(memory)), [](void* context) { delete static_cast<Memory*>(context); }, device);
  const c10::Storage storage(c10::Storage::use_byte_size_t(), static_cast<size_t>(bytes), std::move(owner),
                             c10::GetAllocator(c10::kCPU), /*resizable=*/true);
  return at::empty({0}, options).set_(storage, 0, {count});
}

// A buffer of so many bytes: the one of the last call, if nobody uses it any more.
Tensor& reusable(Processes& processes, Tensor& pack, int64_t bytes, at::ScalarType dtype, c10::Device device) {
  const bool is_free = pack.defined() && pack.use_count() == 1 && pack.storage().use_count() == 1;
  const bool fits = is_free && pack.scalar_type() == dtype && static_cast<int64_t>(pack.nbytes()) == bytes;
  if (!fits || pack.device() != device) pack = new_pack(processes, bytes, dtype, device);
  return pack;
}

BufferPlace place_of(const Processes& processes, const Tensor& pack) {
  if (!pack.is_cpu()) return BufferPlace::device;
  return processes.shared_bytes(pack.const_data_ptr()) > 0 ? BufferPlace::shared : BufferPlace::host;
}

void sum_sparse(Processes& processes, BufferSum& item, const char* name, std::source_location where) {
  const SparseTerms terms = terms_of(item.values, at::kCPU);
  const Tensor own[] = {terms.indices, terms.values};
  std::vector<Tensor> indices, values;
  for (auto& parts : gather_tensors(processes, own, name, where)) {
    indices.push_back(parts[0]);
    values.push_back(parts[1]);
  }
  Tensor joined = at::cat(values);
  if (item.divisor != 1) joined = joined.div(item.divisor);
  item.result = sparse_tensor(at::cat(indices, 1), joined, item.values[0].sizes(), /*is_coalesced=*/false);
}

// The items of one dtype that are summed in one place, in the order in which they come.
struct Column {
  at::ScalarType dtype;
  c10::Device device;
  double divisor;
  std::vector<size_t> items;
  std::vector<int64_t> bytes;
};

std::vector<Column> columns_of(const Processes& processes, std::span<BufferSum> items) {
  std::vector<Column> columns;
  for (size_t i = 0; i < items.size(); ++i) {
    const Tensor& value = items[i].values[0];
    if (items[i].is_whole || value.is_sparse()) continue;
    const c10::Device device = place_of_sum(processes, value);
    const auto fits = [&](const Column& column) {
      return column.dtype == value.scalar_type() && column.device == device && column.divisor == items[i].divisor;
    };
    auto found = std::find_if(columns.begin(), columns.end(), fits);
    if (found == columns.end())
      found = columns.insert(columns.end(), {value.scalar_type(), device, items[i].divisor, {}, {}});
    found->items.push_back(i);
    found->bytes.push_back(packed_bytes(value));
  }
  return columns;
}

// A replay would leave the other processes waiting.
void refuse_recording(const char* name, const std::source_location& where) {
  if (auto* recorder = CallRecorder::current())
    recorder->refuse(Error(ErrorCode::unimplemented,
                           str(name,
                               ": the processes do this together, which cannot be recorded in a function; call "
                               "it outside"),
                           where));
}

// A branch may run in one process and not in another.
void refuse_in_branch(const char* name, const std::source_location& where) {
  if (auto* recorder = CallRecorder::current(); recorder && recorder->in_part()) refuse_recording(name, where);
}

void sum_now(Processes& processes, std::span<BufferSum> items, int64_t bytes_per_pack, const char* name,
             const ParallelCall& parallel, SumPacks& packs, std::source_location where) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const at::NoGradGuard no_grad;
  for (BufferSum& item : items) {
    if (item.is_whole) item.result = item.values[0];
    if (!item.is_whole && item.values[0].is_sparse()) sum_sparse(processes, item, name, where);
  }
  const int64_t before = std::exchange(packs.regroupings, Processes::num_regroupings());
  if (before != packs.regroupings) packs.packs.clear();  // others have none of the group that was
  size_t next_pack = 0;
  for (const Column& column : columns_of(processes, items)) {
    const Dtype dtype = required_dtype(name, items[column.items[0]].values[0]);
    for (const std::vector<size_t>& members : group_by_size(column.bytes, bytes_per_pack)) {
      if (packs.packs.size() == next_pack) packs.packs.emplace_back();
      int64_t bytes = 0;
      for (const size_t member : members) bytes += column.bytes[member];
      Tensor& pack = reusable(processes, packs.packs[next_pack++], bytes, column.dtype, column.device);
      std::vector<BufferSum> sums;
      int64_t offset = 0;
      for (const size_t member : members) {
        BufferSum& item = items[column.items[member]];
        // Contiguous, since the order in which another process has the elements is not known here.
        const at::IntArrayRef sizes = item.values[0].sizes();
        Tensor place = in_pack(pack, offset, sizes, c10::contiguous_strides(sizes));
        sums.push_back({.values = std::move(item.values), .result = std::move(place)});
        offset += column.bytes[member];
      }
      sum_buffers(sums, parallel, &packs.lists);
      for (size_t i = 0; i < members.size(); ++i) items[column.items[members[i]]].result = std::move(sums[i].result);
      processes.run({.kind = CollectiveKind::all_reduce,
                     .dtype = dtype,
                     .count = pack.numel(),
                     .input = pack.const_data_ptr(),
                     .output = pack.mutable_data_ptr(),
                     .place = place_of(processes, pack),
                     .divisor = column.divisor,
                     .name = name,
                     .where = where});
    }
  }
}

// What a recording keeps of a call: the sums are taken of what lies in the values' places at each replay. Threads:
// replays in several take turns.
struct RecordedSum {
  struct Item {
    size_t num_values;
    double divisor;
  };
  std::shared_ptr<Processes> processes;
  int64_t bytes_per_pack;
  std::string name;
  std::source_location where;
  std::vector<Item> items = {};
  SumPacks packs = {};
  std::mutex mutex = {};

  // `tensors`: the values of each item, then the results of all.
  void run(at::ArrayRef<Tensor> tensors) {
    const std::lock_guard lock(mutex);
    std::vector<BufferSum> sums;
    auto next = tensors.begin();
    for (const Item& item : items) {
      const auto end = next + static_cast<std::ptrdiff_t>(item.num_values);
      sums.push_back({.values = {next, end}, .divisor = item.divisor});
      next = end;
    }
    const ParallelCall in_this_thread = [](FunctionRef<void()> function) { function(); };
    sum_now(*processes, sums, bytes_per_pack, name.c_str(), in_this_thread, packs, where);
    for (const BufferSum& sum : sums) next++->copy_(sum.result);
  }
};

void record_sum(const std::shared_ptr<Processes>& processes, std::span<BufferSum> items, int64_t bytes_per_pack,
                const char* name, std::source_location where) {
  const std::shared_ptr<RecordedSum> kept(new RecordedSum{processes, bytes_per_pack, name, where});
  std::vector<Tensor> tensors, results;
  for (BufferSum& item : items) {
    if (item.is_whole) {
      item.result = item.values[0];
      continue;
    }
    tensors.insert(tensors.end(), item.values.begin(), item.values.end());
    item.result = at::empty(item.values[0].sizes(), item.values[0].options().requires_grad(false));
    results.push_back(item.result);
    kept->items.push_back({item.values.size(), item.divisor});
  }
  tensors.insert(tensors.end(), results.begin(), results.end());
  host_step(kept->name.c_str(), tensors, results, [kept](at::ArrayRef<Tensor> now) { kept->run(now); });
}

}  // namespace

void set_processes(const Mesh& mesh, const std::shared_ptr<Processes>& processes) {
  processes_of_meshes().set(MeshShape::of(mesh), processes);
}

std::shared_ptr<Processes> processes_of(const MeshShape& shape) { return processes_of_meshes().find(&shape); }

void sum_numbers(const std::shared_ptr<Processes>& processes, std::span<int64_t> numbers, const char* name,
                 SameSums same, std::source_location where) {
  if (!CallRecorder::current()) return processes->sum(numbers, name, where);
  refuse_in_branch(name, where);
  const auto recorded = std::make_shared<std::vector<int64_t>>();
  const auto sum = [=, own = std::vector<int64_t>(numbers.begin(), numbers.end()), name = std::string(name)](auto) {
    std::vector<int64_t> now = own;
    processes->sum(now, name.c_str(), where);
    if (recorded->empty()) *recorded = now;
    const auto are_same = [=](int64_t a, int64_t b) { return same == SameSums::all ? a == b : (a == 0) == (b == 0); };
    if (!std::ranges::equal(now, *recorded, are_same))
      throw Error(ErrorCode::failed_precondition,
                  str(name, ": the processes agree on ", str_list(now), ", and on ", str_list(*recorded),
                      " when this function was recorded; what differs must be an argument, or "
                      "FunctionOptions::depends_on, in all of them"),
                  where);
  };
  host_step(name, {}, {}, sum);
  std::ranges::copy(*recorded, numbers.begin());
}

void sum_over_processes(const std::shared_ptr<Processes>& processes, std::span<BufferSum> items, int64_t bytes_per_pack,
                        const char* name, const ParallelCall& parallel, SumPacks& packs, std::source_location where) {
  if (!CallRecorder::current()) return sum_now(*processes, items, bytes_per_pack, name, parallel, packs, where);
  refuse_in_branch(name, where);
  const auto is_sparse = [](const BufferSum& item) { return !item.is_whole && item.values[0].is_sparse(); };
  if (std::ranges::any_of(items, is_sparse)) {
    refuse_recording(name, where);
    return sum_now(*processes, items, bytes_per_pack, name, parallel, packs, where);
  }
  record_sum(processes, items, bytes_per_pack, name, where);
}

std::vector<std::vector<Tensor>> gather_tensors(Processes& processes, std::span<const Tensor> own, const char* name,
                                                std::source_location where) {
  refuse_recording(name, where);
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  ByteWriter writer;
  writer.number(static_cast<int64_t>(own.size()));
  for (const Tensor& tensor : own) write_tensor(writer, tensor);
  std::vector<std::vector<Tensor>> all;
  for (const std::vector<uint8_t>& bytes : processes.gather(writer.bytes(), name, where)) {
    ByteReader reader(bytes, name);
    std::vector<Tensor>& tensors = all.emplace_back(static_cast<size_t>(reader.count(1)));
    for (Tensor& tensor : tensors) tensor = read_tensor(reader);
  }
  return all;
}

void broadcast_tensors(Processes& processes, std::span<const Tensor> tensors, const char* name,
                       std::source_location where) {
  refuse_recording(name, where);
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const at::NoGradGuard no_grad;
  const int64_t bytes = std::accumulate(tensors.begin(), tensors.end(), int64_t{0}, [](int64_t sum, const Tensor& t) {
    return sum + static_cast<int64_t>(t.nbytes());
  });
  std::vector<uint8_t> pack(static_cast<size_t>(bytes));
  const auto for_each_place = [&](auto f) {
    uint8_t* place = pack.data();
    for (const Tensor& tensor : tensors) {
      f(tensor, at::from_blob(place, tensor.sizes(), tensor.options().device(at::kCPU).requires_grad(false)));
      place += tensor.nbytes();
    }
  };
  if (processes.is_chief()) for_each_place([](const Tensor& tensor, const Tensor& place) { place.copy_(tensor); });
  processes.run({.kind = CollectiveKind::broadcast,
                 .dtype = Dtype::uint8,
                 .count = bytes,
                 .input = pack.data(),
                 .output = pack.data(),
                 .name = name,
                 .where = where});
  if (!processes.is_chief()) for_each_place([](const Tensor& tensor, const Tensor& place) { tensor.copy_(place); });
}

}  // namespace tutti
