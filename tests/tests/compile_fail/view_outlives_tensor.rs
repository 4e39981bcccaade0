use cotangent::{Device, Tensor};

fn main() {
    let stream = Device::cpu().stream().unwrap();
    let view = {
        let x = Tensor::<f32>::zeros(&stream, &[4]).unwrap();
        x.narrow(0, 1, 2).unwrap()
    };
    view.to_vec(&stream).unwrap();
}
