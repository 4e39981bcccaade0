//! GPUs through the CUDA driver: everything that uses cust or the driver's own functions.
//!
//! Layers, each on top of the one before: `lazy` opens the driver's library on demand, `symbols` and `raw` call
//! into it, `context` makes any thread able to call, and the other modules are the objects that users hold.
//!
//! What holds throughout:
//! - nothing is linked to libcuda; on a machine without a driver each call answers with an error;
//! - any object may be used and dropped on any thread; a thread's own current context is left as it was;
//! - every object keeps the device's context alive;
//! - a drop never panics: what goes wrong there goes to [`log`]; memory and events are given back in stream
//!   order, without waiting.

mod codes;
mod context;
mod device;
mod error;
mod event;
mod graph;
mod launch;
mod lazy;
mod memory;
mod module;
mod once_map;
mod ptx;
mod raw;
mod registry;
mod stream;
mod symbols;
#[cfg(test)]
mod tests;

pub use device::{CudaDevice, DeviceInfo};
pub use error::DriverError;
pub use event::Event;
pub use graph::{Capture, Graph};
pub(crate) use launch::bind_context;
pub use launch::{Arguments, Shape, launch};
pub use memory::{DeviceMemory, address_device, address_range};
pub use module::Function;
pub use ptx::{ComputeCapability, CudaVersion, PtxVersion};
pub use registry::{known_bytes, prepare};
pub use stream::Stream;
