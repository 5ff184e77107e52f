#include "tutti/distribute/nccl_all_reduce.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/util/strides.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "tutti/collectives/nccl/clique.h"
#include "tutti/collectives/packing.h"
#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/device/gpu.h"
#include "tutti/distribute/in_process_all_reduce.h"
#include "tutti/distribute/reduce.h"
#include "tutti/tensor/call_recorder.h"
#include "tutti/tensor/dtype_of.h"
#include "tutti/tensor/packed.h"
#include "tutti/tensor/torch_device.h"

namespace tutti {
namespace {

using Devices = std::vector<c10::Device>;  // different ones, in the order of their indices

// The GPUs on which the values lie; none where some lie elsewhere.
Devices gpus_of(const PerReplica<Tensor>& values) {
  Devices gpus;
  for (const Tensor& value : values) {
    if (!is_gpu(value.device())) return {};
    const auto place = std::ranges::lower_bound(gpus, value.device().index(), {}, &c10::Device::index);
    if (place == gpus.end() || *place != value.device()) gpus.insert(place, value.device());
  }
  return gpus;
}

bool has_graph(const Tensor& value) { return at::GradMode::is_enabled() && value.requires_grad(); }

bool is_for_nccl(const ReduceRequest& request) {
  const Tensor& first = request.values[0];
  const auto dtype = dtype_of(first.scalar_type());
  return dtype && nccl::is_summable(*dtype) && first.layout() == at::kStrided && first.numel() > 0 &&
         std::ranges::none_of(request.values, has_graph);
}

// Elements that lie in memory as they are.
Tensor resolved(const Tensor& value) {
  if (value._is_zerotensor()) return at::zeros(value.sizes(), value.options());
  return value.resolve_conj().resolve_neg();
}

// Tensors of one dtype in a pack on each GPU: where the requests at these places are summed.
class TensorsOnGpus {
 public:
  // Copies the values there; adds up those of one GPU.
  TensorsOnGpus(const Devices& gpus, std::span<const ReduceRequest> requests, std::vector<size_t> members)
      : gpus_(gpus),
        members_(std::move(members)),
        num_values_(static_cast<int64_t>(requests[members_[0]].values.size())),
        places_(gpus.size()) {
    int64_t bytes = 0;
    for (const size_t member : members_) bytes += packed_bytes(requests[member].values[0]);
    for (size_t gpu = 0; gpu < gpus_.size(); ++gpu) {
      const at::TensorOptions options = requests[members_[0]].values[0].options().device(gpus_[gpu]);
      const Tensor& pack =
          packs_.emplace_back(at::empty({bytes / static_cast<int64_t>(options.dtype().itemsize())}, options));
      std::vector<Tensor> values;
      int64_t offset = 0;
      for (const size_t member : members_) {
        const Tensor& like = requests[member].values[0];
        places_[gpu].push_back(in_pack(pack, offset, like.sizes(), strides_of_sum(like)));
        values.push_back(sum_on(gpus_[gpu], requests[member].values));
        offset += packed_bytes(like);
      }
      at::_foreach_copy_(places_[gpu], values);
    }
  }

  // One for each GPU.
  const std::vector<Tensor>& packs() const { return packs_; }

  // Sums by NCCL are done: these are their means.
  void divide() {
    for (Tensor& pack : packs_) pack.div_(num_values_);
  }

  // Gives each destination a tensor of its own: a place in a pack, or a copy of one.
  void hand_out(std::span<const ReduceRequest> requests, std::vector<std::vector<Tensor>>& results) const {
    for (size_t k = 0; k < members_.size(); ++k) {
      std::vector<bool> is_given(gpus_.size());
      for (const Device& name : requests[members_[k]].destinations.devices()) {
        const c10::Device device = torch_device(name);
        const auto found = std::ranges::find(gpus_, device);
        const size_t gpu = found == gpus_.end() ? 0 : static_cast<size_t>(found - gpus_.begin());
        const Tensor& sum = places_[gpu][k];
        const bool is_free = found != gpus_.end() && !is_given[gpu];
        results[members_[k]].push_back(
            is_free ? sum : sum.to(device, sum.scalar_type(), /*non_blocking=*/false, /*copy=*/true));
        if (is_free) is_given[gpu] = true;
      }
    }
  }

 private:
  static std::vector<int64_t> strides_of_sum(const Tensor& like) {
    if (like.is_non_overlapping_and_dense()) return like.strides().vec();
    const auto contiguous = c10::contiguous_strides(like.sizes());
    return {contiguous.begin(), contiguous.end()};
  }

  static Tensor sum_on(c10::Device device, const PerReplica<Tensor>& values) {
    std::vector<Tensor> there;
    for (const Tensor& value : values)
      if (value.device() == device) there.push_back(resolved(value));
    return reduce_tensors(ReduceOp::sum, there);
  }

  const Devices& gpus_;
  std::vector<size_t> members_;
  int64_t num_values_;                       // of each request
  std::vector<Tensor> packs_;                // by GPU
  std::vector<std::vector<Tensor>> places_;  // by GPU, then by member
};

// The tensors of one dtype and number of replicas, whose sums lie in the same packs.
struct Column {
  at::ScalarType dtype;
  size_t num_values;
  std::vector<size_t> requests = {};  // their places
  std::vector<int64_t> bytes = {};
};

std::vector<Column> columns_of(std::span<const ReduceRequest> requests, std::span<const size_t> members) {
  std::vector<Column> columns;
  for (const size_t member : members) {
    const auto& values = requests[member].values;
    const auto fits = [&](const Column& column) {
      return column.dtype == values[0].scalar_type() && column.num_values == values.size();
    };
    auto found = std::ranges::find_if(columns, fits);
    if (found == columns.end()) found = columns.insert(found, {values[0].scalar_type(), values.size()});
    found->requests.push_back(member);
    found->bytes.push_back(packed_bytes(values[0]));
  }
  return columns;
}

std::vector<std::vector<size_t>> packs_of(const Column& column, int num_packs) {
  int64_t bytes = 0;
  for (const int64_t of_tensor : column.bytes) bytes += of_tensor;
  std::vector<std::vector<size_t>> packs =
      group_by_size(column.bytes, num_packs == 0 ? 1 : std::max<int64_t>(bytes / num_packs, 1));
  for (auto& pack : packs)
    for (size_t& member : pack) member = column.requests[member];
  return packs;
}

nccl::Pack pack_of(at::ArrayRef<Tensor> buffers) {
  nccl::Pack pack{.dtype = *dtype_of(buffers[0].scalar_type()), .count = buffers[0].numel()};
  for (const Tensor& buffer : buffers) pack.buffers.push_back(buffer.mutable_data_ptr());
  return pack;
}

std::string describe_sum(std::span<const ReduceRequest> requests, std::span<const size_t> members) {
  const Tensor& first = requests[members[0]].values[0];
  return str("the sum of ", requests[members[0]].values.size(), " replicas' ", first.toString(), ' ',
             str_list(first.sizes()), members.size() > 1 ? str(" and ", members.size() - 1, " more") : "");
}

}  // namespace

// The GPUs that have joined.
class NcclAllReduce::Cliques {
 public:
  Cliques(const nccl::Library& library, std::chrono::milliseconds timeout) : library_(library), timeout_(timeout) {}

  // `buffers`: of each pack one for each GPU.
  void sum(const Devices& gpus, at::ArrayRef<Tensor> buffers) {
    std::vector<nccl::Pack> packs;
    for (size_t first = 0; first < buffers.size(); first += gpus.size())
      packs.push_back(pack_of(buffers.slice(first, gpus.size())));
    const std::lock_guard lock(mutex_);
    auto& clique = joined_[gpus];
    try {
      if (!clique) clique = std::make_unique<nccl::Clique>(library_, gpus, timeout_);
      clique->sum(packs);
    } catch (...) {
      clique.reset();
      throw;
    }
  }

 private:
  struct Before {
    bool operator()(const Devices& a, const Devices& b) const {
      return std::ranges::lexicographical_compare(a, b, {}, &c10::Device::index, &c10::Device::index);
    }
  };

  const nccl::Library& library_;
  const std::chrono::milliseconds timeout_;
  std::mutex mutex_;
  std::map<Devices, std::unique_ptr<nccl::Clique>, Before> joined_;
};

NcclAllReduce::NcclAllReduce(NcclAllReduceOptions options, const cluster::Environment& environment)
    : options_(options), cliques_(std::make_shared<Cliques>(nccl::load(environment), options.timeout)) {
  if (options_.num_packs < 0)
    throw Error(ErrorCode::invalid_argument, str("NcclAllReduce: num_packs is ", options_.num_packs,
                                                 "; it must be 0, for a pack of each tensor, or the number of packs"));
}

std::vector<std::vector<Tensor>> NcclAllReduce::batch_reduce_implementation(
    ReduceOp op, std::span<const ReduceRequest> requests) const {
  std::vector<std::vector<Tensor>> results(requests.size());
  std::vector<std::pair<Devices, std::vector<size_t>>> batches;  // of requests on the same GPUs: mostly one
  for (size_t i = 0; i < requests.size(); ++i) {
    Devices gpus = is_for_nccl(requests[i]) ? gpus_of(requests[i].values) : Devices();
    if (gpus.size() < 2) {
      results[i] = InProcessAllReduce().reduce(op, requests[i].values, requests[i].destinations);
      continue;
    }
    auto found = std::ranges::find(batches, gpus, &std::pair<Devices, std::vector<size_t>>::first);
    if (found == batches.end()) found = batches.emplace(found, std::move(gpus), std::vector<size_t>());
    found->second.push_back(i);
  }
  for (const auto& [gpus, members] : batches) sum_between(gpus, op, requests, members, results);
  return results;
}

void NcclAllReduce::sum_between(const std::vector<c10::Device>& gpus, ReduceOp op,
                                std::span<const ReduceRequest> requests, std::span<const size_t> members,
                                std::vector<std::vector<Tensor>>& results) const {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  std::vector<TensorsOnGpus> tensors;
  std::vector<Tensor> packs;
  for (const Column& column : columns_of(requests, members))
    for (std::vector<size_t>& of_pack : packs_of(column, options_.num_packs)) {
      const auto& buffers = tensors.emplace_back(gpus, requests, std::move(of_pack)).packs();
      packs.insert(packs.end(), buffers.begin(), buffers.end());
    }
  host_step("NcclAllReduce", packs, packs,
            [cliques = cliques_, gpus, sum = describe_sum(requests, members)](at::ArrayRef<Tensor> buffers) {
              try {
                cliques->sum(gpus, buffers);
              } catch (const Error& error) {
                throw Error(error.code(), str("NcclAllReduce, ", sum, ": ", error.what()));
              }
            });
  for (TensorsOnGpus& of_pack : tensors) {
    if (op == ReduceOp::mean) of_pack.divide();
    of_pack.hand_out(requests, results);
  }
}

}  // namespace tutti
