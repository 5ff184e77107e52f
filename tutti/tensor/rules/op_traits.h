#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/util/SmallVector.h>

#include <optional>
#include <string>

// What must be known of single ops and their schemas and tags do not say, or say wrong. Names are as in "aten::add".
namespace tutti {

// Whether LibTorch calls other ops for this one, above autograd: not where it has a kernel for tensors on the CPU.
// einsum has a rule and a gradient of its own.
bool is_composed(const c10::OperatorHandle& op);
// The same below autograd, where the others' rules apply.
bool is_composed_below_autograd(const std::string& name);
// The argument of such an op that is a tensor of numbers, one for each item of its lists.
std::optional<size_t> tensor_of_numbers(const c10::FunctionSchema& schema);
// Whether the op draws random numbers.
bool draws_numbers(const c10::OperatorHandle& op);
// Arguments that the op writes without saying so in its schema.
c10::SmallVector<int, 2> unnamed_writes(const c10::FunctionSchema& schema);
// Whether the op gives its first argument another geometry, in place.
bool changes_geometry(const c10::OperatorHandle& op);
// Whether it ends the gradient of its first argument, in place.
bool detaches(const std::string& name);
// What an op that changes the geometry would be called as one that returns a view: "aten::t" for "aten::t_". There need
// not be one.
c10::OperatorName name_of_view_form(const c10::OperatorName& name);
// Whether it puts its first argument into other memory, whatever shape that has.
bool replaces_memory(const std::string& name);
// Whether it returns views of its first argument without saying so in its schema.
bool shares_memory_unsaid(const std::string& name);
// Whether it returns the elements in other sizes, in the same row-major order.
bool keeps_order(const std::string& name);
// Whether it looks at the strides of a tensor without elements too.
bool looks_at_strides_of_nothing(const std::string& name);
// Of an op that reads only some rows of its first argument, the argument that numbers them; 0: it reads all rows.
size_t argument_of_row_numbers(const std::string& name);
// Of such an op: whether the row that counts as none may be numbered from the end, or be nothing.
bool pads_from_end(const std::string& name);
// Whether it draws the elements in their order, and 16 at a time at most: some first, then the others, is the same.
bool draws_in_order(const std::string& name);
// Whether the result of a pointwise op has the sizes of its first operand, to which the others are broadcast.
bool keeps_sizes_of_first(const std::string& name);
// Whether it gives its first argument the values of another one.
bool copies_values(const std::string& name);
// Whether LibTorch lets it write to elements that share memory.
bool may_write_overlaps(const std::string& name);
// Whether it puts values at indices, where its kernel, which does not run without memory, refuses operands that share
// elements with what it writes; but for one mask and one value.
bool puts_at_indices(const std::string& name);
// Whether it may refuse elements that are conjugated or negated when they are read.
bool looks_at_lazy_bits(const std::string& name);
// Whether it returns its first argument itself where that has no elements, and an empty tensor beside it.
bool gives_back_nothing(const std::string& name);
// Whether its arguments name strides, and so places in the memory of the tensor.
bool names_strides(const std::string& name);
// Whether the kernel does otherwise with a contiguous first argument, and the gradient's formula asks which it was.
bool asks_if_contiguous(const std::string& name);
// Whether LibTorch's kernel gives the result other strides than LibTorch says of tensors without memory.
bool chooses_strides(const std::string& name);
// Whether its out= form takes a tensor of the result's type alone, which LibTorch does not see of ones without memory.
// `is_complex`: of the first argument.
bool requires_type_of_result(const std::string& name, bool is_complex);
// Whether its out= form is that of another op, by another name.
bool renames_out(const std::string& name);
// Whether its out= form, of a result of real numbers, takes no complex tensor.
bool requires_real_out(const std::string& name);
// Whether its out= form, where no dtype is named, computes in that of `out`.
bool computes_in_type_of_out(const std::string& name);
// Whether a program calls it to get sharded values in a plain tensor.
bool gives_plain_values(const std::string& name);
// Whether a program names a device by the call, for which it gets a plain tensor there.
bool names_device(const c10::FunctionSchema& schema, at::ArrayRef<at::IValue> arguments);
// Whether it makes sparse tensors of mesh tensors, and is looked up under their key.
bool makes_sparse(const std::string& name);
// Whether it is a sum of a tensor and what comes next, times a number.
bool adds(const std::string& name);
// Whether it asks what kinds of tensors these are, which LibTorch answers.
bool asks_of_types(const std::string& name);

}  // namespace tutti
