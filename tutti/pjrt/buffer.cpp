#include "tutti/pjrt/buffer.h"

#include <numeric>
#include <utility>

#include "tutti/core/str.h"
#include "tutti/pjrt/abi_programs.h"

namespace tutti::pjrt {

Buffer::Buffer(Buffer&& other) noexcept
    : client_(std::move(other.client_)), handle_(std::exchange(other.handle_, nullptr)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(client_, other.client_);
  std::swap(handle_, other.handle_);
  return *this;
}

Buffer::~Buffer() {
  if (handle_) client_->plugin().destroy<abi::BufferDestroy>(handle_);
}

ElementType Buffer::type() const {
  abi::BufferElementType args{.buffer = handle_};
  client_->plugin().call(args);
  return static_cast<ElementType>(args.type);
}

std::vector<int64_t> Buffer::dims() const {
  abi::BufferDimensions args{.buffer = handle_};
  client_->plugin().call(args);
  return {args.dims, args.dims + args.num_dims};
}

bool Buffer::is_deleted() const {
  abi::BufferIsDeleted args{.buffer = handle_};
  client_->plugin().call(args);
  return args.is_deleted;
}

Event Buffer::read(void* to, int64_t bytes, std::shared_ptr<const void> owner) const {
  if (is_deleted())
    throw Error(ErrorCode::failed_precondition, "the buffer was donated to a program, whose result has its memory now");
  const std::vector<int64_t> sizes = dims();
  const int64_t needed = bytes_of(type(), sizes);
  if (bytes != needed || !owner)
    throw Error(ErrorCode::invalid_argument, str("a buffer of ", needed, " bytes is read into ", bytes,
                                                 owner ? "" : ", which nobody owns while the device writes"));
  std::vector<int64_t> minor_to_major(sizes.size());
  std::iota(minor_to_major.rbegin(), minor_to_major.rend(), 0);
  abi::MemoryLayout layout{
      .tiled = {.minor_to_major = minor_to_major.data(), .minor_to_major_size = minor_to_major.size()}};
  abi::BufferToHostBuffer args{
      .src = handle_, .host_layout = &layout, .dst = to, .dst_size = static_cast<size_t>(bytes)};
  client_->plugin().call(args);
  return Event(client_->plugin(), args.event, str("reading a ", to_string(type()), " ", str_list(sizes)),
               std::move(owner));
}

}  // namespace tutti::pjrt
