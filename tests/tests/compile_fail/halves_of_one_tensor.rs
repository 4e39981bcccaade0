use cotangent::{Device, Tensor, ops};

fn main() {
    let stream = Device::cpu().stream().unwrap();
    let mut x = Tensor::<f32>::zeros(&stream, &[2, 4]).unwrap();
    let (from, to) = (x.narrow(0, 0, 1).unwrap(), x.narrow_mut(0, 1, 1).unwrap());
    ops::relu_into(&stream, from, to).unwrap();
}
