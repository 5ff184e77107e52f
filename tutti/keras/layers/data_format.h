#pragma once

namespace tutti::keras::layers {

// Which axis of images, and of sequences and volumes, has the channels.
enum class DataFormat {
  channels_last,   // [batch, spatial axes, channels]
  channels_first,  // [batch, channels, spatial axes]
};

}  // namespace tutti::keras::layers
