"""The paper's problems, on the public interface."""
