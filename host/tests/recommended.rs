//! The recommended blocks cover 4,096 bytes of results, in every element type.

use cotangent::launch::Geometry;
use cotangent::{
    ChannelCatBackward, ChannelCatForward, ConstantPad1dBackward, ConstantPad1dForward, Conv2dForward, Error,
    FlattenBackward, FlattenForward, Kernel, LaunchOptions, Num, UpsampleNearest2dBackward,
    UpsampleNearest2dForward,
};
use half::{bf16, f16};

fn geometry<K: Kernel>(kernel: &K, args: &K::Args<'_>) -> Geometry {
    let options = LaunchOptions::new();
    let options = if kernel.name().starts_with("channel_cat") { options.rows(1 << 10) } else { options };
    kernel.prepare(args, &options).expect("a launch").geometry()
}

/// Two buffers that are never touched, 2⁴⁰ bytes apart.
fn buffers<D>() -> (*mut D, *mut D) {
    ((1_u64 << 40) as *mut D, (1_u64 << 41) as *mut D)
}

/// A block for each 4,096 bytes of `bytes` bytes of results, of as many threads as take `vectors` 16-byte vectors
/// each.
fn check(geometry: Geometry, bytes: u64, vectors: u64) {
    assert_eq!(u64::from(geometry.block_x), 256 / vectors, "{geometry:?}");
    let blocks = bytes / 4096;
    // One block more takes the vector that an unaligned base would add.
    assert!((blocks..=blocks + 1).contains(&u64::from(geometry.grid_x)), "{geometry:?}, not {blocks} blocks");
}

fn vector_kernels<D: Num>() {
    let (from, to) = buffers::<D>();
    let size = size_of::<D>() as u64;
    let cat = 1024 * 4096 * size;
    check(geometry(&ChannelCatForward::<D>::recommended(), &(from, to, 4096, 8192, 0)), cat, 2);
    check(geometry(&ChannelCatBackward::<D>::recommended(), &(from, to, 4096, 8192, 0)), cat, 2);
    let pad = ConstantPad1dForward::<D>::recommended(16, 16);
    check(geometry(&pad, &(from, to, 4, 256, 4064, 4096, D::default())), 4 * 256 * 4096 * size, 2);
    let pad = ConstantPad1dBackward::<D>::recommended(16, 16);
    check(geometry(&pad, &(from, to, 4, 256, 4096, 4128)), 4 * 256 * 4096 * size, 2);
    let up = UpsampleNearest2dForward::<D>::recommended(2, 2);
    check(geometry(&up, &(from, to, 4, 4, 256, 256, 512, 512)), 16 * 256 * 512 * size, 2);
    let up = UpsampleNearest2dBackward::<D>::recommended(2, 2);
    check(geometry(&up, &(from, to, 4, 4, 256, 256, 512, 512)), 16 * 256 * 256 * size, 1);
    let flat = geometry(&FlattenForward::<D>::recommended(), &(from, to, 4096, 4096, 4096, 1));
    assert_eq!(flat.block_x, 256, "{flat:?}");
    let flat = geometry(&FlattenBackward::<D>::recommended(), &(from, to, 4096, 4096, 4096, 1));
    assert_eq!(flat.block_x, 256, "{flat:?}");
}

#[test]
fn recommended_blocks_cover_4096_bytes() {
    vector_kernels::<u8>();
    vector_kernels::<f16>();
    vector_kernels::<bf16>();
    vector_kernels::<f32>();
    vector_kernels::<f64>();
}

#[test]
fn recommended_keeps_the_shape_and_its_errors() {
    let conv = Conv2dForward::<f32>::recommended(3, 5, 2, 1, 1, 0, 4);
    let shape = [conv.kh, conv.kw, conv.stride_h, conv.stride_w, conv.pad_h, conv.pad_w, conv.g];
    assert_eq!(shape, [3, 5, 2, 1, 1, 0, 4]);
    assert!(conv.block_ow > 0);
    let error = UpsampleNearest2dForward::<f32>::try_recommended(0, 2).expect_err("a scale of zero");
    assert!(matches!(error, Error::Constant { name: "scale_h", value: 0, .. }), "{error}");
}
