#include "tutti/dtensor/pack.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/clone.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/equal.h>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/tensor/comparable.h"
#include "tutti/tensor/cut.h"
#include "tutti/tensor/mesh_tensor.h"
#include "tutti/tensor/registration.h"
#include "tutti/tensor/spec.h"
#include "tutti/tensor/view.h"

namespace tutti::dtensor {
namespace {

[[noreturn]] void refuse_pack(const std::string& message) {
  throw Error(ErrorCode::invalid_argument, "pack: " + message);
}

void check_components(const std::vector<Tensor>& components, const Layout& layout) {
  if (static_cast<int64_t>(components.size()) != layout.mesh().num_devices())
    refuse_pack(str(components.size(), " components for the ", layout.mesh().num_devices(), " devices of ",
                    layout.mesh().to_string(), "; there must be one for each"));
  for (size_t i = 0; i < components.size(); ++i) {
    const Tensor& component = components[i];
    if (!component.defined()) refuse_pack(str("component ", i, " is undefined"));
    if (is_mesh_tensor(component)) refuse_pack(str("component ", i, " is a mesh tensor; a component is a plain one"));
    if (component.layout() != at::kStrided) refuse_pack(str("component ", i, " is not a dense tensor"));
    if (component.requires_grad() && at::GradMode::is_enabled())
      refuse_pack(str("component ", i, " needs a gradient, which would end here; detach() it"));
    if (component.scalar_type() != components[0].scalar_type())
      refuse_pack(str("component ", i, " is ", component.toString(), ", component 0 ", components[0].toString(),
                      "; dtypes must be equal"));
  }
}

at::DimVector global_shape(const std::vector<Tensor>& components, const Layout& layout) {
  std::vector<Layout::Shape> shapes;
  for (const Tensor& component : components) shapes.push_back(component.sizes().vec());
  return at::DimVector(layout.global_shape_from_local_shapes(shapes));
}

DimensionMask split_or_summed(const Layout& layout) {
  DimensionMask mask = layout.unreduced();
  for (const int dimension : layout.axes())
    if (dimension >= 0) mask |= DimensionMask{1} << dimension;
  return mask;
}

// Packs the components of one layout; numbers those that differ by the mesh dimensions that tell them apart.
class Packer {
 public:
  Packer(const std::vector<Tensor>& components, const Layout& layout, at::IntArrayRef sizes)
      : components_(components),
        layout_(layout),
        spec_(spec_of("pack", layout, sizes)),
        shape_(*spec_->shape),
        distinct_(split_or_summed(layout)) {}

  void check_copies() const {
    for (int device = 0; device < num_devices(); ++device) {
      const int first = first_with(distinct_, device);
      if (!at::equal(comparable(component(device).to(component(first).device())), comparable(component(first))))
        refuse_pack(str("components ", first, " and ", device, " differ; in the layout ", layout_.to_string(), " on ",
                        layout_.mesh().to_string(), " they are copies of one value"));
    }
  }

  Tensor pack() const { return make_mesh_tensor(spec_, shape_.merged() ? Components{joined()} : separate()); }

 private:
  int num_devices() const { return static_cast<int>(components_.size()); }
  const Tensor& component(int device) const { return components_[static_cast<size_t>(device)]; }

  // The first device with the coordinates of `device` along the dimensions in `mask`.
  int first_with(DimensionMask mask, int device) const {
    return shape_.project(shape_.project(device, shape_.all, mask), mask, shape_.all);
  }

  // One buffer with the whole value, sums taken; it lies in memory as the components do.
  Tensor joined() const {
    const GlobalViewGuard outside_of_scopes;
    const Layout::Shape global(spec_->sizes.begin(), spec_->sizes.end());
    const Tensor first = component(0).is_non_overlapping_and_dense() ? component(0) : component(0).contiguous();
    const Tensor whole =
        at::empty_strided(spec_->sizes, strides_like(spec_->sizes, *spec_, first.sizes(), first.strides()),
                          first.options().device(shape_.home));
    for (int device = 0; device < num_devices(); ++device) {
      if (first_with(distinct_, device) != device) continue;
      Tensor piece = whole;
      const auto offset = layout_.local_offset(global, device);
      for (int64_t axis = 0; axis < whole.dim(); ++axis)
        piece = piece.narrow(axis, offset[static_cast<size_t>(axis)], component(device).size(axis));
      const bool first_term = first_with(distinct_ & ~layout_.unreduced(), device) == device;
      first_term ? piece.copy_(component(device)) : piece.add_(component(device).to(shape_.home));
    }
    return whole;
  }

  Components separate() const {
    Components stored(static_cast<size_t>(spec_->num_components));
    for (int device = num_devices(); device-- > 0;) {
      if (first_with(spec_->stored, device) != device) continue;
      const int index = shape_.project(device, shape_.all, spec_->stored);
      const Tensor copy = component(device).to(spec_->device_of(index));
      stored[static_cast<size_t>(index)] = copy.is_same(component(device)) ? copy.clone() : copy;
    }
    return stored;
  }

  const std::vector<Tensor>& components_;
  const Layout& layout_;
  const Spec* spec_;
  const MeshShape& shape_;
  DimensionMask distinct_;
};

}  // namespace

Tensor pack(const std::vector<Tensor>& components, const Layout& layout, PackOptions options) {
  check_components(components, layout);
  ensure_registered();
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const Packer packer(components, layout, global_shape(components, layout));
  if (options.check_copies) packer.check_copies();
  return packer.pack();
}

std::vector<Tensor> unpack(const Tensor& tensor) {
  if (!is_mesh_tensor(tensor)) throw Error(ErrorCode::invalid_argument, "unpack: a plain tensor has no components");
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  auto& impl = mesh_impl(tensor);
  std::vector<Tensor> components;
  for (const Tensor& piece : replica_pieces(impl.spec(), impl.read())) components.push_back(piece.alias());
  return components;
}

}  // namespace tutti::dtensor
