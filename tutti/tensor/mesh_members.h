#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

#include "tutti/collectives/group.h"
#include "tutti/mesh/mesh.h"

// A mesh whose devices are divided among processes, or in tests among threads. A tensor on it has its components on a
// process's devices in that process alone. All processes make the same calls in global view, in the same order: ops on
// values that lie in one process need no other, and else the processes send each other what they lack.
namespace tutti {

using Tensor = at::Tensor;
struct MeshShape;

// Divides the devices along a dimension, in equal intervals by rank, among the members of a group, of which `group` is
// this process's handle; who made it keeps it. The mesh names the devices of all, each as this process would: it needs
// as many logical devices, and where the processes are threads of one, a name for each (MeshOptions::name). Every
// process divides its mesh in the same way before it has tensors, and may do so again with another group.
// Throws: invalid_argument for an unknown dimension or one whose size the group's does not divide; unimplemented where
// devices share no memory or values have a home; failed_precondition for a mesh that has tensors and is not divided.
void divide_mesh(const Mesh& mesh, const std::string& dimension, const std::shared_ptr<Group>& group);

// Of a divided mesh. Throws: failed_precondition where nobody keeps it any more; unimplemented in a recorded function.
std::shared_ptr<Group> group_of(const MeshShape& shape);

// What each process has brought, by rank: tensors of any number, shapes and dtypes, undefined ones too. They arrive
// contiguous, this process's own too, on `device`. Throws: as Group::run.
std::vector<std::vector<Tensor>> gather_over_members(const MeshShape& shape, const std::vector<Tensor>& own,
                                                     const std::string& cause, c10::Device device);

// Before an op draws on a divided mesh, where each process draws the whole value for itself: where the caller names no
// generator, whether LibTorch's own are in step. Every process calls it.
// Throws: failed_precondition in all of them where they are not; as group_of.
void check_generators_of(const MeshShape& shape, const std::string& op, at::ArrayRef<at::IValue> arguments);

}  // namespace tutti
