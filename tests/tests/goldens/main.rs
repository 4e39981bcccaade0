//! Results against PyTorch's: `goldens/generate.py` made them, and says how.
//!
//! Every case runs on the CPU path and on device code. Copies are compared bit for bit; sums with the right answer,
//! within a bound that follows from their terms. [`table`] compares the errors with PyTorch's own.

mod arithmetic;
mod copies;
mod data;
mod elementwise;
mod places;
mod table;
