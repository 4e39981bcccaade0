use cotangent::{Device, Tensor, ops};

fn main() {
    let stream = Device::cpu().stream().unwrap();
    let x = Tensor::<i32>::zeros(&stream, &[4]).unwrap();
    ops::relu(&stream, &x).unwrap();
}
