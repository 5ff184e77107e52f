#include "tutti/checkpoint/request_check.h"

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/files/dtype_names.h"

namespace tutti::checkpoint {

void check_inside(const IndexedTensor& tensor, const Region& region) {
  bool inside = region.sizes.size() == tensor.sizes.size() && region.first.size() == tensor.sizes.size();
  for (size_t axis = 0; inside && axis < tensor.sizes.size(); ++axis)
    inside = region.first[axis] >= 0 && region.sizes[axis] >= 0 && region.first[axis] <= tensor.sizes[axis] &&
             region.sizes[axis] <= tensor.sizes[axis] - region.first[axis];
  if (!inside)
    throw Error(ErrorCode::invalid_argument, str("checkpoint: the region ", region.to_string(), " is not inside '",
                                                 tensor.name, "' of shape ", str_list(tensor.sizes)));
}

void check_fits(const IndexedTensor& tensor, c10::IntArrayRef sizes, const Tensor& destination) {
  if (destination.sizes() != sizes || destination.scalar_type() != tensor.dtype)
    throw Error(
        ErrorCode::invalid_argument,
        str("checkpoint: '", tensor.name, "', of which ", files::form_text(tensor.dtype, sizes),
            " is to be read, into a tensor that is ", files::form_text(destination.scalar_type(), destination.sizes()),
            "; shape and dtype must be the same"));
}

void check_request(const Reader::Request& request) {
  Region region = Region::whole(request.tensor->sizes);
  if (request.first_row && region.rank() > 0) {
    region.first[0] = *request.first_row;
    region.sizes[0] = request.destination.dim() > 0 ? request.destination.size(0) : 0;
  }
  check_inside(*request.tensor, region);
  check_fits(*request.tensor, region.sizes, request.destination);
}

}  // namespace tutti::checkpoint
