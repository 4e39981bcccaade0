/// Every kernel.
pub static KERNELS: &[KernelInfo] = &[];
