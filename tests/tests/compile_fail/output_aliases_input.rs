use cotangent::{Device, Tensor, ops};

fn main() {
    let stream = Device::cpu().stream().unwrap();
    let mut x = Tensor::<f32>::zeros(&stream, &[4]).unwrap();
    ops::relu_into(&stream, &x, &mut x).unwrap();
}
