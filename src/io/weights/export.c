/* export.c - recognises files that only the framework which wrote them can read (pickled objects,
 * archives of code), and says how to export from them. */
#include "io/weights/weights.h"

static const struct {
    const char *suffix, *how;
} export_ways[] = {
    {".pt2", "a program of torch.export: torch.onnx.export(torch.export.load(\"model.pt2\"), "
             "f=\"model.onnx\", dynamo=True) writes what is read here"},
    {".pt",
     "a pickle of PyTorch: torch.onnx.export(model, example_input, \"model.onnx\") writes the "
     "network, safetensors.torch.save_file(model.state_dict(), \"model.safetensors\") its "
     "weights"},
    {".pth", "a pickle of PyTorch: torch.onnx.export(model, example_input, \"model.onnx\") writes "
             "the network, safetensors.torch.save_file(model.state_dict(), \"model.safetensors\") "
             "its weights"},
    {".bin", "perhaps a pickle of PyTorch's weights: model.save_pretrained(\"folder\", "
             "safe_serialization=True) writes model.safetensors; its config.json is read as well"},
    {".ckpt", "a checkpoint of another framework: export the network as .onnx (torch.onnx.export, "
              "tf2onnx), its weights as .safetensors"},
    {".h5", "a model of Keras: python3 -m tf2onnx.convert --keras model.h5 --output model.onnx, or "
            "tf.lite.TFLiteConverter for a .tflite file"},
    {".hdf5", "a model of Keras: python3 -m tf2onnx.convert --keras model.hdf5 --output "
              "model.onnx, or tf.lite.TFLiteConverter for a .tflite file"},
    {".keras", "a model of Keras: model.export(\"folder\"), then python3 -m tf2onnx.convert "
               "--saved-model folder --output model.onnx"},
    {".pb", "perhaps a graph of TensorFlow: python3 -m tf2onnx.convert --saved-model folder "
            "--output model.onnx"},
    {".mlmodel", "a model of Core ML: export it as .onnx where it was made (torch.onnx.export)"},
    {".mlpackage", "a model of Core ML: export it as .onnx where it was made (torch.onnx.export)"},
    {".pdmodel", "a model of PaddlePaddle: paddle2onnx --model_dir . --save_file model.onnx"},
    {".engine", "a plan of TensorRT for one device: give the .onnx file that it was built from"},
    {".npz", "arrays of NumPy: safetensors.numpy.save_file(dict(numpy.load(\"weights.npz\")), "
             "\"weights.safetensors\") writes what is read here"},
};

const char *tn_weights_how_to_export(const char *path) {
    for (size_t i = 0; i < sizeof export_ways / sizeof *export_ways; i++)
        if (tn__has_suffix(path, export_ways[i].suffix)) return export_ways[i].how;
    return NULL;
}
