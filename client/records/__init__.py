"""Records as an application passes and receives them: serializers, interceptors, Arrow."""
