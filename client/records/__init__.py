"""Records as applications send and receive them: serializers, interceptors, Arrow."""
